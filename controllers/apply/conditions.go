package apply

import (
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxMessage is the length, in bytes, to which condition messages are cut: an error can quote a whole object.
const MaxMessage = 1024

// SetCondition sets one condition, with the generation that it was computed from. The transition time moves only with
// the status. The list stays sorted by type, so that an equal state is an equal list. It tells whether anything changed.
func SetCondition(conds *[]metav1.Condition, gen int64, kind string, status metav1.ConditionStatus, reason, message string) bool {
	changed := meta.SetStatusCondition(conds, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: Truncate(message, MaxMessage), ObservedGeneration: gen,
	})
	slices.SortFunc(*conds, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return changed
}

// Truncate cuts text to at most limit bytes, at a character's border, and ends it with "..." where it was cut.
func Truncate(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= limit {
		return text
	}
	cut := limit - len("...")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}
