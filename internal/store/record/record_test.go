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
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
)

// fill sets every field of v to a different value, so that a test finds a field that is not encoded.
func fill(t testing.TB, v reflect.Value, n *int) {
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

func filled[T any](t testing.TB) *T {
	x, n := new(T), 0
	fill(t, reflect.ValueOf(x).Elem(), &n)
	return x
}

// TestRecords encodes every field of every record. A field that was added to a type but not to its
// record fails this test.
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
	record := EncodeCheckpoint(cp, true)
	gotCP, err := DecodeCheckpoint(record)
	cp.ID, cp.Thread, cp.Parent, cp.Seq = "", "", "", 0 // these fields are columns
	same(gotCP, cp, err)

	entries := *filled[[]segno.Entry](t)
	record = EncodeEntries(entries, true)
	gotEntries, err := DecodeEntries(record)
	same(gotEntries, entries, err)

	thread := *filled[segno.Thread](t)
	record = EncodeThread(&thread)
	gotThread, err := DecodeThread(thread.ID, record)
	same(gotThread, thread, err)

	link := *filled[segno.Link](t)
	record = EncodeLink(&link)
	gotLink, err := DecodeLink(record)
	same(gotLink, link, err)

	op := *filled[segno.Operation](t)
	record = EncodeOperation(&op)
	gotOp, err := DecodeOperation(op.ID, op.Workspace, record)
	same(gotOp, op, err)

	ws := *filled[segno.WorkspaceRecord](t)
	ws.State.Workspace = ws.ID
	record = EncodeWorkspace(&ws)
	state := EncodeState(&ws.State)
	gotWS, err := JoinWorkspace(ws.ID, record, state)
	same(gotWS, ws, err)
}

// TestNewerRecords reads records with fields that this version does not know.
func TestNewerRecords(t *testing.T) {
	cp := filled[segno.Checkpoint](t)
	record := EncodeCheckpoint(cp, true)
	newer := encoder()
	future, minus := "a field to come", -5
	text(&newer, 900, &future)
	newer.out = append(newer.out, record[sumLength:]...)
	number(&newer, 901, &minus)
	newer.out = protowire.AppendFixed64(protowire.AppendTag(newer.out, 902, protowire.Fixed64Type), 7)
	got, err := DecodeCheckpoint(newer.record(true))
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

// TestBitFlips flips each bit of the stored bytes of a checkpoint and of entries, long and short. The
// error is ErrDamaged, or the result is unchanged.
func TestBitFlips(t *testing.T) {
	q := NewSqueezer()
	try := func(rec []byte, decode func([]byte) (any, error)) {
		t.Helper()
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
	try(EncodeCheckpoint(filled[segno.Checkpoint](t), true), checkpoint)
	try(EncodeCheckpoint(&segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 3}, false), checkpoint)
	for _, body := range []string{`"short"`, `{"role":"assistant","text":"` + strings.Repeat("what an agent says ", 30) + `"}`} {
		try(EncodeEntries([]segno.Entry{{Kind: segno.EntryMessage, Turn: 1, Body: []byte(body)}, {Kind: segno.EntryNote, Name: "n"}}, false), entries)
	}
}

// TestDamagedBytes overwrites each byte of a record with every other value, truncates the record at each
// byte, and fills it with zeros from either end. Decoding fails, or the result is unchanged.
func TestDamagedBytes(t *testing.T) {
	for _, c := range []*segno.Checkpoint{filled[segno.Checkpoint](t), {Kind: segno.CheckpointStep, Turn: 3, Agent: "a"}} {
		rec := EncodeCheckpoint(c, true)
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
			try(fmt.Sprintf("zeros up to %d of %d", i, len(rec)), bad)
			copy(bad, rec)
			clear(bad[i:])
			try(fmt.Sprintf("zeros from %d of %d", i, len(rec)), bad)
		}
	}
	q := NewSqueezer()
	for n := range 80 {
		if rec, err := q.Unpack(make([]byte, n)); err == nil {
			if c, err := DecodeCheckpoint(rec); err == nil {
				t.Errorf("%d zeros are read as %+v", n, c)
			}
		}
	}
}

// FuzzRecords decodes random bytes with a correct checksum. A result without an error survives encoding and decoding.
// An empty list is equal to none: no encoder writes one, and the next decoding returns nil.
func FuzzRecords(f *testing.F) {
	f.Add([]byte{})
	f.Add(EncodeCheckpoint(filled[segno.Checkpoint](f), true)[sumLength:])
	f.Add(EncodeEntries([]segno.Entry{{Kind: segno.EntryNote, Body: []byte("1")}}, false)[sumLength:])
	f.Add([]byte("\x7a\x02\x42\x00")) // a position with a digest of zero bytes
	f.Fuzz(func(t *testing.T, data []byte) {
		summed := codec{out: append(make([]byte, sumLength), data...)}
		data = summed.record(false)
		if c, err := DecodeCheckpoint(data); err == nil {
			again := EncodeCheckpoint(c, true)
			got, err := DecodeCheckpoint(again)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
		}
		if entries, err := DecodeEntries(data); err == nil {
			again := EncodeEntries(entries, true)
			got, err := DecodeEntries(again)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(entries, got, cmpopts.EquateEmpty()); diff != "" {
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
