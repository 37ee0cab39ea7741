package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/dalsegno/segno"
)

// DecodeAction reads an action: one JSON object without unknown members. The error has
// [segno.KindInvalid].
func DecodeAction[A any](action json.RawMessage) (a A, err error) {
	dec := json.NewDecoder(bytes.NewReader(action))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the action is empty")
		}
		return a, segno.NewError(segno.KindInvalid, "act", "", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return a, segno.Errorf(segno.KindInvalid, "act", "", "there is more after the action")
	}
	return a, nil
}
