package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dalsegno/segno"
)

// parseExact reads into v the document that [segno.Encode] returns for it. Every other form is an error, such as
// a repeated key, keys in another order, or white space. So there is one document for each v.
func parseExact(data []byte, v any) error {
	err := parse(data, v)
	if err == nil {
		err = checkExact(data, v)
	}
	return err
}

func checkExact(data []byte, v any) error {
	again, err := segno.Encode(v)
	if err == nil && !bytes.Equal(again, data) {
		err = errors.New("the document has another form than segno writes")
	}
	return err
}

// parse reads a document into v. An unknown field is an error, and so is anything behind the document.
func parse(data []byte, v any) error {
	if err := checkElements(data); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.InputOffset() != int64(len(data)) {
		err = errors.New("there is more behind the document")
	}
	return err
}

// maxElements bounds the elements of all lists of a document, and thereby the memory that a short
// document can ask for.
const maxElements = 1 << 20

// checkElements returns an error if the lists of a document have too many elements.
func checkElements(data []byte) error {
	var open []byte // the brackets around the present place
	elements, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open = append(open, c)
		case (c == '}' || c == ']') && len(open) > 0:
			open = open[:len(open)-1]
		case c == ',' && len(open) > 0 && open[len(open)-1] == '[':
			elements++
		}
	}
	if elements > maxElements {
		return fmt.Errorf("its lists have more than %d elements", maxElements)
	}
	return nil
}
