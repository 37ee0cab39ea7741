package proxy_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// calmTurn is a turn of one prompt without a fault, so that a move certainly undoes all of
// it.
type calmTurn struct {
	name          string // the name of the prompt
	steps         []acptest.Step
	before, after string // the content of the user's file at these times
	shared        bool   // another conversation's turn ran in the directory meanwhile
}

// alone reports whether no other conversation works in the directory. A restore is exact,
// and would also change the files of the others.
func (k *talk) alone() bool {
	return !slices.ContainsFunc(k.talks, func(o *talk) bool { return o != k && o.place == k.place })
}

// forget records that turns were undone.
func (k *talk) forget(turns []calmTurn) {
	for _, t := range turns {
		k.accepted = slices.DeleteFunc(k.accepted, func(name string) bool { return name == t.name })
		k.undone, k.since = append(k.undone, t.name), append(k.since, len(k.requests()))
		for _, s := range t.steps {
			k.forgets = append(k.forgets, s.Line)
		}
	}
	k.calm = k.calm[:len(k.calm)-len(turns)]
	k.newest = nil
}

// newestCalm returns up to most of the newest calm turns.
func (k *talk) newestCalm(most int) []calmTurn {
	return slices.Clone(k.calm[max(0, len(k.calm)-max(0, most)):])
}

// undo undoes the newest turns, with a prompt in the conversation or with the segno
// command.
func (k *talk) undo(byPrompt bool) error {
	turns := k.newestCalm(k.turns[0].back)
	if len(turns) == 0 {
		return nil
	}
	if err := k.move("undo", turns, byPrompt); err != nil {
		return err
	}
	k.forget(turns)
	k.ahead = turns
	return nil
}

// redo redoes the turns that undo has just undone.
func (k *talk) redo(byPrompt bool) error {
	if len(k.ahead) == 0 {
		if err := k.undo(!byPrompt); err != nil || len(k.ahead) == 0 {
			return err
		}
	}
	if err := k.move("redo", k.ahead, byPrompt); err != nil {
		return err
	}
	for _, t := range k.ahead {
		i := slices.Index(k.undone, t.name)
		k.undone, k.since = slices.Delete(k.undone, i, i+1), slices.Delete(k.since, i, i+1)
		k.accepted = append(k.accepted, t.name)
		k.forgets = slices.DeleteFunc(k.forgets, func(line string) bool {
			return slices.ContainsFunc(t.steps, func(s acptest.Step) bool { return s.Line == line })
		})
	}
	k.calm, k.ahead, k.newest = append(k.calm, k.ahead...), nil, nil
	return nil
}

// move undoes or redoes calm turns. It must change all their files, except files that
// another conversation's turn may have written.
func (k *talk) move(verb string, turns []calmTurn, byPrompt bool) error {
	var said string
	n := strconv.Itoa(len(turns))
	left := false
	if byPrompt {
		var err error
		if said, err = k.command("/" + verb + " " + n); err != nil {
			return err
		}
		if !strings.Contains(said, ": now at ") {
			return fmt.Errorf("/%s %s says %q", verb, n, said)
		}
		left = strings.Contains(said, "\n- ! ") || strings.Contains(said, "\n- = ")
	} else {
		it, err := k.logged(turns[0].name) // the command needs the thread if there are several
		if err != nil {
			return err
		}
		const conflicts = 4 // the exit code
		cmd := k.segno("-C", k.cwd, "--thread", it.Thread, verb, n, "-y")
		out, err := cmd.CombinedOutput()
		said, left = string(out), cmd.ProcessState.ExitCode() == conflicts
		if err != nil && !left {
			return fmt.Errorf("segno %s %s: %w: %s", verb, n, err, said)
		}
	}
	k.tell("%s %s: %q", verb, n, said)
	if !left {
		return nil
	}
	if !slices.ContainsFunc(turns, func(t calmTurn) bool { return t.shared }) {
		return fmt.Errorf("%s %s leaves files as they are: %q", verb, n, said)
	}
	for _, t := range turns {
		for _, s := range t.steps {
			k.stray = append(k.stray, s.Line)
		}
	}
	return nil
}

// restore moves to a turn before the newest ones, with all files.
func (k *talk) restore() error {
	turns := k.newestCalm(min(k.turns[0].back, len(k.calm)-1))
	if len(turns) == 0 || !k.alone() {
		return nil
	}
	to := k.calm[len(k.calm)-len(turns)-1]
	it, err := k.logged(to.name)
	if err != nil {
		return err
	}
	said, err := k.command(fmt.Sprintf("/restore t%d", it.Turn))
	if err != nil {
		return err
	}
	if k.tell("restore t%d: %q", it.Turn, said); !strings.Contains(said, ": now at ") {
		return fmt.Errorf("/restore says %q", said)
	}
	k.forget(turns)
	k.userFile[k.place], k.ahead = to.after, nil
	return nil
}

// edit replaces an older prompt by another one.
func (k *talk) edit() error {
	turns := k.newestCalm(k.turns[0].back)
	if len(turns) == 0 || !k.alone() {
		return nil
	}
	it, err := k.logged(turns[0].name)
	if err != nil {
		return err
	}
	k.edits++
	name := fmt.Sprintf("edit-%s-%d", k.name, k.edits)
	turn := plannedTurn{steps: []acptest.Step{{Tool: "ledger", Line: fmt.Sprintf("line-%s", name), File: k.file()}, acptest.Say(name + " is done")}}
	k.forget(turns)
	return k.take(calmTurn{name: name, steps: turn.steps}, "", func() error {
		_, err := k.sayTo(k.client, name, fmt.Sprintf("/edit %d %s: %s", it.Turn, name, acptest.Directive(turn.steps...)), turn)
		return k.goOn(turn, name, 4, err)
	})
}

// command makes the client send a slash command and returns the reply.
func (k *talk) command(text string) (string, error) {
	t, err := k.client.Prompt(k.id, text)
	if err != nil {
		return "", err
	}
	_, err = t.Stop(k.ctx)
	return t.Said(), err
}

// logged returns the checkpoint of a prompt.
func (k *talk) logged(name string) (item, error) {
	items, err := k.logs()
	if err != nil {
		return item{}, err
	}
	for _, it := range items {
		if strings.HasPrefix(it.Prompt, name+":") {
			return it, nil
		}
	}
	return item{}, fmt.Errorf("%s is not in the log: %v", name, items)
}

// adopt begins the conversation without segno, which then opens it.
func (k *talk) adopt() error {
	client, err := acptest.Start(k.ctx, k.bare(), acptest.ClientOptions{})
	if err != nil {
		return err
	}
	if _, err := client.Initialize(k.ctx, nil); err != nil {
		return err
	}
	if k.id, err = client.Open(k.ctx, "new", "", k.cwd); err != nil {
		return err
	}
	for n := range 2 {
		name := fmt.Sprintf("prompt-%s-before%d", k.name, n)
		t, err := client.Prompt(k.id, name+": "+acptest.Directive(
			acptest.Step{Tool: "ledger", Line: fmt.Sprintf("line-%s", name), File: k.file()}, acptest.Say(name+" is done")))
		if err != nil {
			return err
		}
		if _, err := t.Stop(k.ctx); err != nil {
			return err
		}
		k.accepted = append(k.accepted, name)
	}
	_ = client.CloseStdin()
	if _, err := client.Wait(k.ctx); err != nil {
		return err
	}
	k.tell("adopt %s", k.id)
	k.foreign = len(k.requests())
	_, err = k.client.Open(k.ctx, []string{"load", "resume"}[k.plan.seed%2], k.id, k.cwd)
	return err
}
