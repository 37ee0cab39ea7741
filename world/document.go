package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/dalsegno/segno"
)

// Header is the part of a document that every world has. Other members belong to the world.
type Header struct {
	Format  string        `json:"format"`
	Content segno.Hash    `json:"content_hash"`
	Time    segno.SimTime `json:"time"`
	Seq     uint64        `json:"seq"`
}

// ReadHeader reads the header of a document of any world. It does not check the other
// members. The error has [segno.KindCorrupt].
func ReadHeader(document []byte) (Header, error) {
	var h struct {
		Format  *string        `json:"format"`
		Content segno.Hash     `json:"content_hash"`
		Time    *segno.SimTime `json:"time"`
		Seq     *uint64        `json:"seq"`
	}
	if err := json.Unmarshal(document, &h); err != nil {
		return Header{}, segno.NewError(segno.KindCorrupt, "read world", "", err)
	}
	if h.Format == nil || h.Time == nil || h.Seq == nil {
		return Header{}, segno.Errorf(segno.KindCorrupt, "read world", "", "the document has no format, time or seq")
	}
	return Header{Format: *h.Format, Content: h.Content, Time: *h.Time, Seq: *h.Seq}, nil
}

// document is the saved form of a simulation, and its whole state in memory.
type document[S any] struct {
	Header
	RNG      []byte     `json:"rng"` // math/rand/v2.PCG
	Sessions []agent    `json:"sessions"`
	Chat     []Message  `json:"chat"`
	State    *S         `json:"state"`
	Outcomes Outcomes   `json:"outcomes,omitempty"` // of the state
	Sum      segno.Hash `json:"sum"`                // SHA-256 of the document with an empty sum
}

// agent is one agent of a world, in the order of joining.
type agent struct {
	Session string `json:"session"`
	Name    string `json:"name"`
}

// Message is one line of chat, as agents see it.
type Message struct {
	Time segno.SimTime `json:"time"`
	From string        `json:"from"`
	Text string        `json:"text"`
}

// encode returns the document with its sum.
func (d *document[S]) encode() ([]byte, error) {
	sealed := *d
	sealed.Sum = segno.Hash{}
	data, err := json.Marshal(sealed)
	if err != nil {
		return nil, err
	}
	sealed.Sum = segno.HashOf(data)
	return json.Marshal(sealed)
}

// decode reads a document that encode wrote, and refuses every other one. Only one text encodes a
// state, so decode encodes the result again to find unknown, missing, repeated and reordered members.
func decode[S any](data []byte) (*document[S], error) {
	corrupt := func(err error) error {
		return segno.NewError(segno.KindCorrupt, "load world", "", err).WithHint("load a document that the world wrote, unchanged")
	}
	d := new(document[S])
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(d); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the document is truncated")
		}
		return nil, corrupt(err)
	}
	if d.State == nil {
		return nil, corrupt(errors.New("the document has no state"))
	}
	again, err := d.encode()
	if err != nil {
		return nil, corrupt(err)
	}
	if !bytes.Equal(again, data) {
		return nil, corrupt(errors.New("the document does not match its sum"))
	}
	return d, nil
}
