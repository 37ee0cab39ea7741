package workspace

import (
	"errors"
	"slices"
	"strings"
)

// xattrPrefix is the namespace of extended attributes that belongs to users.
const xattrPrefix = "user."

// xattr is one extended attribute.
type xattr struct{ name, value string }

// encodeXattrs returns the object of a file's attributes, nil for none.
func encodeXattrs(all []xattr) []byte {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b xattr) int { return strings.Compare(a.name, b.name) })
	b := []byte(xattrMagic)
	for _, x := range all {
		b = appendString(appendString(b, x.name), x.value)
	}
	return b
}

// decodeXattrs reads the object of a file's attributes.
func decodeXattrs(data []byte) ([]xattr, error) {
	d, err := decode(data, xattrMagic)
	if err != nil {
		return nil, err
	}
	var out []xattr
	last := ""
	for len(d.rest) > 0 && d.err == nil {
		x := xattr{name: d.string(), value: d.string()}
		if d.err == nil && (!strings.HasPrefix(x.name, xattrPrefix) || len(x.name) == len(xattrPrefix) || strings.IndexByte(x.name, 0) >= 0) {
			d.fail("an attribute that is not a user's")
		}
		d.order(&last, x.name)
		out = append(out, x)
	}
	if d.err == nil && len(out) == 0 {
		return nil, errors.New("no attributes")
	}
	return out, d.err
}
