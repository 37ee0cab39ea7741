package record

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/google/go-cmp/cmp"
)

// fill sets every field of v to a different value, so that a test finds a field that is not encoded.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(1767225600, int64(*n)).UTC()
		return
	case *segno.Hash:
		*x = segno.HashOf(fmt.Append(nil, *n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d \x00\xff", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(-int64(*n) << 40)
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			if v.Type().Elem().Kind() == reflect.Uint8 {
				v.Index(i).SetUint(uint64(*n % 256))
			} else {
				fill(t, v.Index(i), n)
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, key, n)
			fill(t, value, n)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	default:
		t.Fatalf("a field of kind %v: teach fill and the encoder", v.Kind())
	}
}

func filled[T any](t *testing.T) *T {
	x, n := new(T), 0
	fill(t, reflect.ValueOf(x).Elem(), &n)
	return x
}

// TestRecords encodes every field of every record. A field added to the domain
// and not to its record fails here.
func TestRecords(t *testing.T) {
	same := func(got, want any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	cp := filled[segno.Checkpoint](t)
	record, err := EncodeCheckpoint(cp, true)
	same(nil, nil, err)
	gotCP, err := DecodeCheckpoint(record)
	cp.ID, cp.Thread, cp.Parent, cp.Seq = "", "", "", 0 // those are columns
	same(gotCP, cp, err)

	entries := *filled[[]segno.Entry](t)
	record, err = EncodeEntries(entries, true)
	same(nil, nil, err)
	gotEntries, err := DecodeEntries(record)
	same(gotEntries, entries, err)

	thread := *filled[segno.Thread](t)
	record, err = EncodeThread(&thread)
	same(nil, nil, err)
	gotThread, err := DecodeThread(thread.ID, record)
	same(gotThread, thread, err)

	link := *filled[segno.Link](t)
	record, err = EncodeLink(&link)
	same(nil, nil, err)
	gotLink, err := DecodeLink(record)
	same(gotLink, link, err)

	op := *filled[segno.Operation](t)
	record, err = EncodeOperation(&op)
	same(nil, nil, err)
	gotOp, err := DecodeOperation(op.ID, op.Workspace, record)
	same(gotOp, op, err)

	ws := *filled[segno.WorkspaceRecord](t)
	ws.State.Workspace = ws.ID
	record, err = EncodeWorkspace(&ws)
	same(nil, nil, err)
	state, err := EncodeState(&ws.State)
	same(nil, nil, err)
	gotWS, err := JoinWorkspace(ws.ID, record, state)
	same(gotWS, ws, err)
}

// TestNewerRecords reads records with fields that this version does not know.
func TestNewerRecords(t *testing.T) {
	cp := filled[segno.Checkpoint](t)
	record, err := EncodeCheckpoint(cp, true)
	if err != nil {
		t.Fatal(err)
	}
	e := encoder{b: bytes.Clone(record[sumLength:])}
	e.text(900, "a field to come")
	e.number(901, -5)
	got, err := DecodeCheckpoint(e.record())
	if err != nil {
		t.Fatal(err)
	}
	want, err := DecodeCheckpoint(record)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

// TestOlderRecords reads a record without a checksum.
func TestOlderRecords(t *testing.T) {
	record, err := EncodeCheckpoint(filled[segno.Checkpoint](t), false)
	if err != nil {
		t.Fatal(err)
	}
	want, err := DecodeCheckpoint(record)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeCheckpoint(record[sumLength:])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

// TestBitFlips flips each bit of the stored bytes of a checkpoint and of entries, long and short. The
// error is ErrDamaged, or the result is unchanged.
func TestBitFlips(t *testing.T) {
	q := NewSqueezer()
	try := func(rec []byte, err error, decode func([]byte) (any, error)) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		want, err := decode(rec)
		if err != nil {
			t.Fatal(err)
		}
		packed := q.Pack(rec)
		for i := range len(packed) * 8 {
			bad := bytes.Clone(packed)
			bad[i/8] ^= 1 << (i % 8)
			rec, err := q.Unpack(bad)
			if err != nil {
				continue
			}
			if got, err := decode(rec); err == nil && !cmp.Equal(want, got) {
				t.Fatalf("with bit %d of %d changed it is read as %+v", i, len(packed)*8, got)
			}
		}
	}
	checkpoint := func(p []byte) (any, error) { return DecodeCheckpoint(p) }
	entries := func(p []byte) (any, error) { return DecodeEntries(p) }
	rec, err := EncodeCheckpoint(filled[segno.Checkpoint](t), true)
	try(rec, err, checkpoint)
	rec, err = EncodeCheckpoint(&segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 3}, false)
	try(rec, err, checkpoint)
	for _, body := range []string{`"short"`, `{"role":"assistant","text":"` + strings.Repeat("what an agent says ", 30) + `"}`} {
		rec, err = EncodeEntries([]segno.Entry{{Kind: segno.EntryMessage, Turn: 1, Body: []byte(body)}, {Kind: segno.EntryNote, Name: "n"}}, false)
		try(rec, err, entries)
	}
}

// TestDamagedBytes overwrites each byte of a record with every other value, truncates the record at each
// byte, and fills it with zeros from either end. Decoding fails, or the result is unchanged.
func TestDamagedBytes(t *testing.T) {
	for _, c := range []*segno.Checkpoint{filled[segno.Checkpoint](t), {Kind: segno.CheckpointStep, Turn: 3, Agent: "a"}} {
		rec, err := EncodeCheckpoint(c, true)
		if err != nil {
			t.Fatal(err)
		}
		want, err := DecodeCheckpoint(rec)
		if err != nil {
			t.Fatal(err)
		}
		try := func(what string, bad []byte) {
			if got, err := DecodeCheckpoint(bad); err == nil && !cmp.Equal(want, got) {
				t.Errorf("%s: it is read as %+v", what, got)
			}
		}
		for i := range rec {
			for b := range 256 {
				bad := bytes.Clone(rec)
				bad[i] = byte(b)
				try(fmt.Sprintf("byte %d of %d is %d", i, len(rec), b), bad)
			}
			if i > 0 {
				try(fmt.Sprintf("cut at %d", i), rec[:i])
			}
			bad := bytes.Clone(rec)
			clear(bad[:i+1])
			try(fmt.Sprintf("noughts up to %d of %d", i, len(rec)), bad)
			copy(bad, rec)
			clear(bad[i:])
			try(fmt.Sprintf("noughts from %d of %d", i, len(rec)), bad)
		}
	}
	q := NewSqueezer()
	for n := range 80 {
		if n == 2 {
			continue // a record of before there was a sum that says nothing
		}
		if rec, err := q.Unpack(make([]byte, n)); err == nil {
			if c, err := DecodeCheckpoint(rec); err == nil {
				t.Errorf("%d noughts are read as %+v", n, c)
			}
		}
	}
}

// FuzzRecords decodes random bytes. A result without an error survives encoding and decoding.
func FuzzRecords(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x0b, 3, 'a', 'b', 'c', 0x10, 5})
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := DecodeCheckpoint(data); err == nil {
			again, err := EncodeCheckpoint(c, true)
			if err != nil {
				return // a time no zone has
			}
			got, err := DecodeCheckpoint(again)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c, got); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
		}
		if entries, err := DecodeEntries(data); err == nil {
			again, err := EncodeEntries(entries, true)
			if err != nil {
				return
			}
			got, err := DecodeEntries(again)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(entries, got); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
		}
		_, _ = DecodeThread("t", data)
		_, _ = DecodeLink(data)
		_, _ = DecodeOperation("o", "w", data)
		_, _ = JoinWorkspace("w", data, data)
	})
}

// FuzzExpand decompresses random bytes, into at most as many as were asked for.
func FuzzExpand(f *testing.F) {
	q := NewSqueezer()
	text := bytes.Repeat([]byte("compress me "), 50)
	for _, squeeze := range []func(dst, data []byte) ([]byte, Encoding){q.Small, q.Fast} {
		data, e := squeeze(nil, text)
		f.Add(byte(e), data, int64(len(text)))
	}
	f.Fuzz(func(t *testing.T, e byte, data []byte, size int64) {
		if size < 0 || size > 1<<20 {
			return
		}
		if out, err := q.Expand(Encoding(e), data, size); err == nil && Encoding(e) != Plain && int64(len(out)) != size {
			t.Fatalf("%d bytes instead of %d", len(out), size)
		}
	})
}
