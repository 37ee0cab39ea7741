package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dalsegno/segno"
)

// usageError is a command line that segno cannot run. withHelpHint adds the verb's help.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// UnexpectedArg is the error of an argument that a verb does not take.
func UnexpectedArg(verb, arg, hint string) error {
	return segno.NewError(segno.KindInvalid, verb, "", usageError{fmt.Errorf("unexpected argument %q", arg)}).WithHint(hint)
}

// Usage marks an error as one of the command line, which ends with exit code 2.
func Usage(err error) error {
	return segno.NewError(segno.KindInvalid, "", "", usageError{err})
}

// withHelpHint adds a hint to an error about the command line: the command for the verb's help, or
// a verb with a similar spelling.
func withHelpHint(verb *cobra.Command, err error) error {
	if err == nil || segno.HintOf(err) != "" {
		return err
	}
	var typed string
	if _, scanErr := fmt.Sscanf(err.Error(), "unknown command %q", &typed); scanErr == nil {
		return unknownVerb(verb, typed)
	}
	if !errors.As(err, new(usageError)) {
		return err
	}
	return segno.NewError(segno.KindInvalid, "", "", err).WithHint("run '" + helpOf(verb) + "'")
}

// helpOf returns the command that prints a verb's help.
func helpOf(verb *cobra.Command) string { return strings.TrimSpace("segno help " + nameOf(verb)) }

// nameOf returns a verb as the user types it: "undo", "op undo".
func nameOf(verb *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(verb.CommandPath(), "segno"), " ")
}

// unknownVerb returns the error for a word that is not a verb below parent.
func unknownVerb(parent *cobra.Command, typed string) error {
	e := segno.NewError(segno.KindInvalid, "", "", usageError{fmt.Errorf("unknown command %q", typed)}).
		WithHint("run '" + helpOf(parent) + "'")
	const far = 2 // letters; so far from a word are too many of the verbs behind nouns
	for distance := 0; distance <= min(far, len(typed)-1); distance++ {
		similar := similarVerbs(parent, typed, distance)
		for _, c := range parent.Commands() {
			if len(similar) == 0 && distance < far && c.IsAvailableCommand() {
				similar = similarVerbs(c, typed, distance)
			}
		}
		if len(similar) > 0 {
			e.Hint = "did you mean '" + strings.Join(similar, "' or '") + "'?"
			break
		}
	}
	return e
}

// similarVerbs returns the commands below parent whose names differ from a word in at most that many letters.
func similarVerbs(parent *cobra.Command, typed string, distance int) (commands []string) {
	parent.SuggestionsMinimumDistance = distance
	for _, name := range parent.SuggestionsFor(typed) {
		commands = append(commands, parent.CommandPath()+" "+name)
	}
	return commands
}

// Similar returns the one of words that a user probably meant, or "".
func Similar(typed string, words []string) string {
	choice := &cobra.Command{Use: "choice"}
	for _, word := range words {
		choice.AddCommand(&cobra.Command{Use: word, Run: func(*cobra.Command, []string) {}})
	}
	for distance := range min(3, len(typed)) {
		choice.SuggestionsMinimumDistance = distance
		if similar := choice.SuggestionsFor(typed); len(similar) > 0 {
			return similar[0]
		}
	}
	return ""
}

// asksForJSON reports whether a command line has the flag --json.
func asksForJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json")
}

var numberFlag = regexp.MustCompile(`in -([0-9]+)$`)

// flagError explains a flag that a verb does not have.
func flagError(c *cobra.Command, err error) error {
	if bad := (*pflag.InvalidValueError)(nil); errors.As(err, &bad) {
		return Usage(fmt.Errorf("--%s takes %s: %q is not one", bad.GetFlag().Name, valueOf(bad.GetFlag()), bad.GetValue()))
	}
	m := numberFlag.FindStringSubmatch(err.Error())
	if m == nil {
		return Usage(err)
	}
	e := segno.NewError(segno.KindInvalid, nameOf(c), "", usageError{fmt.Errorf("unknown flag: -%s", m[1])}).
		WithHint("run '" + helpOf(c) + "'")
	switch nameOf(c) {
	case "undo", "redo":
		e.Hint = fmt.Sprintf("give the number of turns without a dash: 'segno %s %s'", c.Name(), m[1])
	case "log":
		e.Hint = fmt.Sprintf("run 'segno log -n %s'", m[1])
	}
	return e
}

// valueOf describes the values that a flag takes.
func valueOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int":
		return "a number"
	case "duration":
		return "a duration such as 30s or 5m"
	case "bool":
		return "true or false"
	}
	return "a " + f.Value.Type()
}

// positional makes a verb and its subcommands name the wrong argument in their errors.
func positional(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error { return argsError(c, args, check) }
	}
	for _, sub := range c.Commands() {
		positional(sub)
	}
}

// argsError checks the arguments of a verb. cobra's messages only count the arguments. argsError
// names the first unexpected argument, or shows the usage if an argument is missing.
func argsError(c *cobra.Command, args []string, check cobra.PositionalArgs) error {
	err := check(c, args)
	switch {
	case err == nil:
		return nil
	case c.HasSubCommands():
		return unknownVerb(c, args[0])
	case !strings.Contains(err.Error(), "arg(s)") && !strings.HasPrefix(err.Error(), "unknown command"):
		return Usage(err) // the verb's own message instead of cobra's
	}
	e := segno.Errorf(segno.KindInvalid, nameOf(c), "", "missing argument: %s%s", c.CommandPath(), strings.TrimPrefix(c.Use, c.Name()))
	for n := len(args) - 1; n >= 0; n-- {
		if check(c, args[:n]) == nil {
			e.Err = fmt.Errorf("unexpected argument %q", args[n])
			break
		}
	}
	e.Err = usageError{e.Err}
	return e
}
