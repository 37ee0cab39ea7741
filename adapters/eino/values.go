package segnoeino

import (
	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/adapters/internal/encodable"
)

// checkValue returns an error that names the type if Eino's serializer would lose a part of v silently. Between two
// steps, values are serialized, and without [Invoke] they are not. Types that the serializer does not know are its
// own errors, which name the type.
func checkValue(what string, v any) error {
	if lost := encodable.Lost(v, true); lost != "" {
		return segno.Errorf(segno.KindInvalid, opRun, what, "a value of type %T cannot be saved: %s", v, lost).
			WithHint("export the fields, or give the type the methods MarshalJSON and UnmarshalJSON")
	}
	return nil
}
