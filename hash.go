package segno

import (
	"crypto/sha256"
	"encoding/hex"
)

// Hash is the SHA-256 of an object's bytes and the object's name. The zero Hash
// names nothing.
type Hash [sha256.Size]byte

// HashOf returns the name of the object with these bytes.
func HashOf(data []byte) Hash { return sha256.Sum256(data) }

// ParseHash reads 64 hexadecimal digits; "" is the zero Hash.
func ParseHash(s string) (h Hash, err error) { return h, h.UnmarshalText([]byte(s)) }

// IsZero reports whether h names nothing.
func (h Hash) IsZero() bool { return h == Hash{} }

// String returns 64 hexadecimal digits, or "" for the zero Hash.
func (h Hash) String() string {
	if h.IsZero() {
		return ""
	}
	return hex.EncodeToString(h[:])
}

// MarshalText returns the text of String.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads the text of String. The error has [KindInvalid].
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*h = Hash{}
		return nil
	}
	if len(text) != hex.EncodedLen(len(h)) {
		return Errorf(KindInvalid, "read hash", string(text), "not 64 hexadecimal digits")
	}
	if _, err := hex.Decode(h[:], text); err != nil {
		return NewError(KindInvalid, "read hash", string(text), err)
	}
	return nil
}
