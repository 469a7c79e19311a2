package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"quarry.dev/quarry/internal/local"
	"quarry.dev/quarry/internal/search"
)

// searchOptions are the flags of local search.
type searchOptions struct {
	dir, out, as    string
	topK            int
	explain, asJSON bool
}

func newLocalSearchCommand() *cobra.Command {
	var o searchOptions
	cmd := &cobra.Command{
		Use: "search QUESTION", Short: "Ask the documents of a folder, which are indexed first where they are not yet", Args: cobra.MinimumNArgs(1),
		Example: "  quarry local search --dir handbook \"How long is parental leave?\"",
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd, strings.Join(args, " ")) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.dir, "dir", "", "folder with the documents; it is indexed first where that has not been done")
	flags.StringVar(&o.out, "out", "", "folder of the index; DIR.quarry, or the only *.quarry here, by default")
	flags.StringVar(&o.as, "as", "user:local", "who asks: one user and any groups, such as user:ann,group:hr")
	flags.IntVar(&o.topK, "top-k", 0, "number of passages; the recipe's by default")
	flags.BoolVar(&o.explain, "explain", false, "show ranks and scores of each stage, the weights, and how the vectors were searched")
	flags.BoolVar(&o.asJSON, "json", false, "print the answer of the API")
	return cmd
}

func (o searchOptions) run(cmd *cobra.Command, question string) error {
	id, err := local.ParseAs(o.as)
	if err != nil {
		return err
	}
	request := search.Request{Query: question}
	if cmd.Flags().Changed("top-k") {
		request.TopK = &o.topK
	}
	if o.explain {
		request.Explain = "Ranks"
	}
	if err := o.index(cmd); err != nil {
		return err
	}
	s, err := local.Open(cmd.Context(), o.out, local.Warnings(cmd.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer s.Close()
	response, err := s.Search(cmd.Context(), id, request)
	if err != nil {
		return err
	}
	if o.asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(response)
	}
	var shown bytes.Buffer
	s.Show(&shown, question, response, isTerminal(cmd.OutOrStdout()) && os.Getenv("NO_COLOR") == "")
	if o.explain {
		text, err := s.Explain()
		if err != nil {
			return err
		}
		shown.WriteString(text)
	}
	_, err = shown.WriteTo(cmd.OutOrStdout())
	return err
}

// index finds the index to ask, and makes it where a folder of documents is named that has none.
func (o *searchOptions) index(cmd *cobra.Command) error {
	switch {
	case o.out == "" && o.dir != "":
		o.out = local.DefaultOut(o.dir)
	case o.out == "":
		found, err := filepath.Glob("*.quarry")
		if err != nil || len(found) != 1 {
			return fmt.Errorf("there are %d indexes (*.quarry) here: name the folder of the documents, and it is indexed first: quarry local search --dir DIR \"your question\"; or the folder of an index, with --out", len(found))
		}
		o.out = found[0]
	}
	if o.dir == "" {
		return nil
	}
	if built, changed := local.State(o.dir, o.out); built {
		if changed {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s has changed since it was indexed; to index it again: quarry local build %s --out %s\n", o.dir, quoted(o.dir), quoted(o.out))
		}
		return nil
	}
	r, err := local.ReadRecipe("")
	if err != nil {
		return err
	}
	return buildFolder(cmd, o.dir, o.out, r, cmd.ErrOrStderr())
}

// quoted is a word of a command that can be copied into a shell.
func quoted(word string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./=+:,@", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
