package worldcheck

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
)

// checkDamage checks that a world refuses each damaged document and stays unchanged, so that it
// still loads the undamaged one.
func checkDamage(r *run) error {
	original, _, err := r.played(append(r.script[:len(r.script):len(r.script)], r.say(0, "a text"), Step{Verb: VerbAdvance, Ticks: 1}))
	if err != nil {
		return err
	}
	saved, err := original.Snapshot(r.ctx)
	if err != nil {
		return err
	}
	w, err := r.world()
	if err != nil {
		return err
	}
	documents := damaged(saved.Document, original.Info(), len(r.script))
	if r.config.External { // each of them starts a process
		documents = documents[:min(len(documents), 16)]
	}
	for _, d := range documents {
		err := r.unchanged(w, "load a document that is "+d.why, func() error {
			err := w.Load(r.ctx, d.data)
			return refusal(err, segno.KindCorrupt, segno.KindRefused, segno.KindInvalid)
		})
		if err != nil {
			return err
		}
	}
	if err := w.Load(r.ctx, saved.Document); err != nil {
		return fmt.Errorf("load after damaged documents: %w", err)
	}
	now, err := w.Snapshot(r.ctx)
	if err != nil {
		return err
	}
	return equal("load after damaged documents", saved, now)
}

// badDocument is a document that no world may load.
type badDocument struct {
	why  string
	data []byte
}

// damaged returns damaged forms of a document. shift varies which bits are flipped.
func damaged(document []byte, info segno.WorldInfo, shift int) (all []badDocument) {
	add := func(data []byte, why string, args ...any) {
		if !bytes.Equal(data, document) {
			all = append(all, badDocument{fmt.Sprintf(why, args...), data})
		}
	}
	replace := func(from, to string) []byte { return bytes.Replace(document, []byte(from), []byte(to), 1) }
	add(replace(info.Format, "another/1"), "of another format")
	if !info.Content.IsZero() {
		add(replace(info.Content.String(), segno.HashOf(nil).String()), "of another content")
	}
	add(replace("{", `{"unknown":1,`), "with an unknown member")
	add(document[:len(document)-1], "truncated by a byte")
	add(nil, "empty")
	for _, at := range plausible(document) { // only a sum finds them
		changed := bytes.Clone(document)
		changed[at] ^= 1
		add(changed, "changed at byte %d, from %q to %q", at, document[at], changed[at])
	}
	flip := func(i int) {
		flipped := bytes.Clone(document)
		flipped[i] ^= 1 << (i % 7)
		add(flipped, "flipped at byte %d", i)
	}
	flip(shift * 7 % len(document))
	flip(len(document) - 2 - shift%20)
	add(document[:len(document)/2], "truncated to a half")
	add([]byte("{}"), "an empty object")
	add([]byte("null"), "null")
	add(append(bytes.Clone(document), document...), "twice itself")
	add(replace(`"seq":`, `"seq":1`), "of another sequence number")
	add(bytes.Repeat([]byte("["), 100_000), "nested too deep")
	for i := shift % 13; i < len(document); i += 13 {
		flip(i)
	}
	for i := 1; i < len(document); i += 1 + len(document)/10 {
		add(document[:i], "truncated to %d bytes", i)
	}
	return all
}

// maxPlausible limits how many letters and how many digits are changed, each in a different document.
const maxPlausible = 4

// plausible returns places in a document where a flip of the lowest bit gives another document with the same structure:
// a letter of a text, or a digit of a number that is not the first digit.
func plausible(document []byte) (places []int) {
	var letters, digits []int
	inText, text := false, 0
	for i := 1; i < len(document); i++ {
		c, before := document[i], document[i-1]
		switch {
		case before == '\\':
		case c == '"':
			if inText = !inText; inText {
				text = i
			} else if i+1 < len(document) && document[i+1] == ':' { // a name of a member
				letters = slices.DeleteFunc(letters, func(at int) bool { return at > text })
			}
		case inText && c >= 'b' && c <= 'y':
			letters = append(letters, i)
		case !inText && c >= '0' && c <= '9' && before >= '1' && before <= '9':
			digits = append(digits, i)
		}
	}
	return append(spread(letters, maxPlausible), spread(digits, maxPlausible)...)
}

// spread returns at most n elements of a list, evenly spaced from its beginning to its end.
func spread(all []int, n int) (some []int) {
	for i := range min(n, len(all)) {
		some = append(some, all[(len(all)-1)*i/max(n-1, 1)])
	}
	return some
}

// checkLoadFresh checks that a world that has been used refuses to load and stays unchanged.
func checkLoadFresh(r *run) error {
	w, _, err := r.played(r.script[:1])
	if err != nil {
		return err
	}
	other, _, err := r.played(r.script)
	if err != nil {
		return err
	}
	restored, saved, err := r.restored(other)
	if err != nil {
		return err
	}
	for when, used := range map[string]segno.World{"load into a used world": w, "load into a loaded world": restored} {
		err := r.unchanged(used, when, func() error { return refusal(used.Load(r.ctx, saved.Document), segno.KindRefused) })
		if err != nil {
			return err
		}
	}
	return nil
}
