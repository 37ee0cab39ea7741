package worldcheck

import (
	"bytes"
	"fmt"

	"github.com/dalsegno/segno"
)

// checkDamage checks that a world refuses each damaged document and stays as it was, so that it
// still loads the undamaged one.
func checkDamage(r *run) error {
	original, _, err := r.played(r.script)
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
		documents = documents[:min(len(documents), 8)]
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

// checkLoadFresh checks that a world that was used refuses to load, and stays as it was.
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
