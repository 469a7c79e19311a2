//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
)

// topic is one document, and the question that it alone answers.
type topic struct {
	key, title, question string
	// fact answers the question in so many words that no chunk of 16 tokens can hold half of them.
	fact string
}

// topics have a labelled question each. Those below hr/ are for the group hr.
var topics = []topic{
	{"public/parking.md", "Parking", "Where do visitors park a bicycle?", "Visitors who arrive by bicycle park in the covered rack behind the northern gatehouse, take a numbered tag from the porter on duty, and hand the same tag back before they leave the grounds in the evening"},
	{"public/canteen.md", "Canteen", "When does the canteen serve warm lunch?", "The canteen serves a warm lunch from half past eleven until two in the afternoon on working days, with a soup and a vegetable dish, and closes its kitchen completely during the last week of every December"},
	{"public/library.md", "Library", "How many books may a colleague borrow at once?", "A colleague may borrow six printed books at once for a period of twenty eight days, renew each of them two times through the catalogue terminal, and must return reference atlases on the very same day"},
	{"public/badges.md", "Badges", "What happens when an entrance badge is lost?", "Whoever loses an entrance badge reports the loss to the guard room without delay, receives a yellow day card against a signature, and pays a replacement fee only for the third badge lost in a calendar year"},
	{"public/travel.md", "Travel", "Which class of train do employees book?", "Employees book second class train tickets for journeys shorter than three hours, may choose first class for longer journeys or at night, and hand in the original ticket within ten days after they have come home"},
	{"public/laptops.txt", "Laptops", "How often is a laptop replaced?", "A laptop is replaced every four years or after a second repair of its main board, the old machine is wiped by the service desk, and its owner may buy it for a symbolic price at the autumn flea market"},
	{"public/printing.md", "Printing", "How is a poster printed in colour?", "A poster in colour is printed on the plotter of the drawing office after a request by the head of a team, needs a lead time of two days, and is collected from the long shelf beside the freight elevator"},
	{"public/firedrill.html", "Fire drill", "Where do people gather after a fire alarm?", "After a fire alarm people gather on the meadow beside the water tower, wait there until a warden in an orange vest has counted them, and return to their desks only when the siren has sounded twice again"},
	{"public/gardening.md", "Gardening", "Who waters the plants in the atrium?", "The plants in the atrium are watered by the apprentices of the facility team each Monday and Thursday, with rain water from the cistern under the terrace, while orchids are looked after by an external nursery alone"},
	{"hr/salaries.md", "Salaries", "What is the salary of a senior welder?", "A senior welder earns between fifty one and sixty three thousand a year depending on certificates, receives a night bonus of twenty percent, and moves up one salary step after every third year without an accident on site"},
	{"hr/warnings.md", "Warnings", "After how many written warnings is a contract ended?", "A contract is ended after the third written warning for the same misconduct within eighteen months, provided that the works council was heard before, and that the person had the chance to answer in the presence of a witness"},
	{"hr/pensions.md", "Pensions", "How much does the company add to the pension fund?", "The company adds seven percent of the yearly wage to the pension fund for everybody who has stayed longer than two years, doubles voluntary payments up to a ceiling, and reports the balance by letter in early spring"},
}

// The notices have no labelled question, so that taking them away changes no verdict.
var (
	picnic = topic{"notices/picnic.md", "Picnic", "When does the summer picnic at the lake begin?", "The summer picnic at the lake begins at three on the second Saturday of July with a regatta of paper boats"}
	strike = topic{"notices/strike.md", "Strike", "When do the crane drivers plan their strike?", "The crane drivers plan their strike for the twelfth of May and want to block the quay until midnight"}
	merger = topic{"notices/merger.md", "Merger", "With whom is a merger of the shipyard negotiated?", "A merger of the shipyard is negotiated with the Halvorsen brothers of Bergen under the code name Lantern"}
)

var notices = []topic{picnic, strike, merger}

// mark is a word that stands in every document of a tenant and in no other's.
func mark(tenant string) string {
	return map[string]string{"a": "Aldermoor", "b": "Birchwater"}[tenant]
}

const (
	sidecarSuffix = ".acl.json"
	onlyStaff     = `{"allow":[{"type":"Group","name":"staff"}]}`
	nobody        = `{"allow":[]}`
)

// documents are the objects of a tenant's corpus, sidecars included.
func documents(tenant string) map[string]string {
	out := map[string]string{merger.key + sidecarSuffix: onlyStaff}
	for _, t := range topics {
		out[t.key] = t.text(tenant, "first")
	}
	for _, t := range notices {
		out[t.key] = t.text(tenant, "first")
	}
	return out
}

// text is the document in one edition. Editions differ in one word, which is in the same passage as the fact.
func (t topic) text(tenant, edition string) string {
	about := fmt.Sprintf("This page of the %s handbook is about %s. It was written by the office of the director, and it replaces every circular that was sent out before. Suggestions are welcome on a card in the red box.", mark(tenant), strings.ToLower(t.title))
	rule := fmt.Sprintf("%s. This is the %s edition of the rule at %s.", t.fact, edition, mark(tenant))
	contact := fmt.Sprintf("Whoever has a doubt about %s asks the reception of %s, which is open from eight in the morning until six, or leaves a note in the tray that carries the title of this page. An answer comes within three days.", strings.ToLower(t.title), mark(tenant))
	switch {
	case strings.HasSuffix(t.key, ".html"):
		return fmt.Sprintf("<!doctype html><html><head><title>%[1]s</title></head><body><h1>%[1]s</h1><p>%[2]s</p><h2>Rule</h2><p>%[3]s</p><h2>Contact</h2><p>%[4]s</p></body></html>", t.title, about, rule, contact)
	case strings.HasSuffix(t.key, ".txt"):
		return strings.Join([]string{t.title, about, rule, contact}, "\n\n") + "\n"
	}
	return fmt.Sprintf("# %s\n\n%s\n\n## Rule\n\n%s\n\n## Contact\n\n%s\n", t.title, about, rule, contact)
}

func (t topic) restricted() bool { return strings.HasPrefix(t.key, "hr/") }

// evalSet labels the topics' questions, and adds one that nothing answers and those that a stranger to hr must not see answered.
func evalSet(tenant string) string {
	type person struct {
		User   string   `json:"user"`
		Groups []string `json:"groups,omitempty"`
	}
	type evidence struct {
		Document string `json:"document"`
		Quote    string `json:"quote"`
	}
	type question struct {
		ID        string       `json:"id"`
		Question  string       `json:"question"`
		As        person       `json:"as"`
		Kind      string       `json:"kind"`
		Evidence  [][]evidence `json:"evidence,omitempty"`
		Forbidden []string     `json:"forbidden,omitempty"`
	}
	set := []question{{ID: "nothing", Question: "How deep is the Mariana trench?", As: person{User: "bob"}, Kind: "Unanswerable"}}
	for _, t := range topics {
		who := person{User: "bob"}
		if t.restricted() {
			set = append(set, question{ID: t.title + "-hidden", Question: t.question, As: who, Kind: "Forbidden", Forbidden: []string{t.key}})
			who = person{User: "ann", Groups: []string{"hr"}}
		}
		set = append(set, question{ID: t.title, Question: t.question, As: who, Kind: "Answerable", Evidence: [][]evidence{{{t.key, t.fact}}}})
	}
	var lines strings.Builder
	for _, q := range set {
		line, err := json.Marshal(q)
		if err != nil {
			panic(fmt.Sprintf("the eval set of tenant %s is no JSON: %v", tenant, err))
		}
		lines.Write(append(line, '\n'))
	}
	return lines.String()
}
