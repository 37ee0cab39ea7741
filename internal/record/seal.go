package record

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"errors"

	"github.com/dalsegno/segno"
)

// Sealed is the encoding of sealed bytes: the number, a nonce, and what was sealed with
// its tag. Compressed bytes are sealed, never the other way round.
const Sealed Encoding = 3

// What unsealing finds.
var (
	ErrPlain  = errors.New("it is kept in plain, and the store is sealed")
	ErrSealed = errors.New("it does not open with the store's key: it was changed, or belongs elsewhere")
)

// Sealer seals what a store keeps, so that nobody reads it who has not the key, and
// nobody puts it elsewhere or changes it unseen. A nil Sealer is that of a store without
// a key: it leaves everything as it is. All methods may be called at once.
type Sealer struct {
	cipher xaes
	terms  []byte // the key of what stands in indexes
}

// Mark is what a sealed store keeps in plain, to know its key again: a version, a random
// salt, and a check value. It says nothing of the key.
//
// The salt makes the keys of one store. So what one store sealed no other opens, even
// if the user gives both the same key.
type Mark []byte

const (
	markVersion = 1
	markSalt    = 32
	markCheck   = 16
	markLength  = 1 + markSalt + markCheck
)

// KeyLength is how many bytes a key has.
const KeyLength = 32

// Unlock returns the sealer of the store called name: nil for one that is not sealed. key
// is nil if the user gave none, mark nil if the store has none. Of a store that is new the
// mark is returned that it must keep before anything else. A key that is not the store's
// is [segno.KindRefused].
func Unlock(name string, key, mark []byte, isNew bool) (*Sealer, Mark, error) {
	refused := func(why, hint string) (*Sealer, Mark, error) {
		return nil, nil, segno.Errorf(segno.KindRefused, "open store", name, "%s", why).WithHint(hint)
	}
	if err := CheckKey(key); err != nil {
		return nil, nil, err
	}
	switch {
	case key == nil && mark == nil:
		return nil, nil, nil
	case key == nil:
		return refused("the store is sealed, and no key was given", "set Options.Key to the key the store was made with")
	case mark == nil && !isNew:
		return refused("the store is not sealed, and a key was given", "open it without Options.Key, or make a new store with one")
	case mark == nil:
		mark = append([]byte{markVersion}, make([]byte, markSalt)...)
		rand.Read(mark[1:])
		z, check, err := newSealer(key, mark)
		return z, append(mark, check...), err
	case len(mark) == markLength && mark[0] > markVersion:
		return nil, nil, segno.Errorf(segno.KindNewer, "open store", name, "a newer segno sealed the store")
	case len(mark) != markLength || mark[0] != markVersion:
		return nil, nil, segno.Errorf(segno.KindCorrupt, "open store", name, "the mark of its key is damaged")
	}
	z, check, err := newSealer(key, mark)
	if err == nil && subtle.ConstantTimeCompare(check, mark[1+markSalt:]) != 1 {
		return refused("the store is sealed with another key", "set Options.Key to the key the store was made with")
	}
	return z, mark, err
}

// CheckKey reports whether key may be one; nil is none. The error has
// [segno.KindInvalid].
func CheckKey(key []byte) error {
	if key == nil || len(key) == KeyLength {
		return nil
	}
	return segno.Errorf(segno.KindInvalid, "open store", "", "the key has not exactly 32 bytes").WithHint("give 32 random bytes, or derive them from a passphrase with a function made for that")
}

// newSealer derives the keys of the store with a mark, and its check value.
func newSealer(key []byte, mark Mark) (z *Sealer, check []byte, err error) {
	secret, err := hkdf.Extract(sha256.New, key, mark[1:1+markSalt])
	if err != nil {
		return nil, nil, err
	}
	derive := func(purpose string, length int) (out []byte) {
		if err == nil {
			out, err = hkdf.Expand(sha256.New, secret, "segno store 1, "+purpose, length)
		}
		return out
	}
	records, terms, check := derive("records", 32), derive("terms", 32), derive("check", markCheck)
	if err != nil {
		return nil, nil, err
	}
	z = &Sealer{terms: terms}
	z.cipher, err = newXAES(records)
	return z, check, err
}

// Seal returns plain sealed to its place: what it is, and the ids that say which.
func (z *Sealer) Seal(plain []byte, place ...string) []byte {
	if z == nil {
		return plain
	}
	var nonce [xaesNonce]byte
	rand.Read(nonce[:])
	return z.seal(nonce[:], plain, place)
}

// Same is Seal, but the same bytes sealed to the same place are the same again, so that
// a database can compare them. Whoever reads them learns that.
func (z *Sealer) Same(plain []byte, place ...string) []byte {
	if z == nil {
		return plain
	}
	h := z.sum("nonce", append(placed([]byte{byte(len(place))}, place), plain...))
	return z.seal(h[:xaesNonce], plain, place)
}

func (z *Sealer) seal(nonce, plain []byte, place []string) []byte {
	out := make([]byte, 0, 1+xaesNonce+len(plain)+xaesTag)
	out = append(append(out, byte(Sealed)), nonce...)
	var buf [256]byte
	out, err := z.cipher.seal(out, nonce, plain, placed(buf[:0], place))
	if err != nil {
		panic("segno: internal error: sealing: " + err.Error())
	}
	return out
}

// Open returns what was sealed to a place: [ErrPlain] if that was not sealed at all,
// [ErrSealed] if it was with another key, to another place, or was changed since.
func (z *Sealer) Open(sealed []byte, place ...string) ([]byte, error) {
	switch {
	case z == nil:
		return sealed, nil
	case len(sealed) == 0 || sealed[0] != byte(Sealed):
		return nil, ErrPlain
	case len(sealed) < 1+xaesNonce+xaesTag:
		return nil, ErrSealed
	}
	var buf [256]byte
	plain, err := z.cipher.open(sealed[1:1+xaesNonce], sealed[1+xaesNonce:], placed(buf[:0], place))
	if err != nil {
		return nil, ErrSealed
	}
	if plain == nil {
		plain = []byte{}
	}
	return plain, nil
}

// placed writes the parts of a place so that no other parts are written alike.
func placed(dst []byte, parts []string) []byte {
	for _, part := range parts {
		dst = binary.AppendUvarint(dst, uint64(len(part)))
		dst = append(dst, part...)
	}
	return dst
}

func (z *Sealer) sum(kind string, value []byte) (h segno.Hash) {
	mac := hmac.New(sha256.New, z.terms)
	mac.Write(placed(nil, []string{kind}))
	mac.Write(value)
	mac.Sum(h[:0])
	return h
}

// Hash is what a hash of the user's bytes stands as in the store. Who has a file may
// guess its hash, and must not find it here. The zero hash stays, for it names nothing.
func (z *Sealer) Hash(kind string, h segno.Hash) segno.Hash {
	if z == nil || h.IsZero() {
		return h
	}
	return z.sum(kind, h[:])
}

var nameText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Name is what a name stands as in the store, where it is looked up.
func (z *Sealer) Name(kind, value string) string {
	if z == nil || value == "" {
		return value
	}
	h := z.sum(kind, []byte(value))
	return nameText.EncodeToString(h[:20])
}

// Cuts is a checksum of data that names its pieces. Sealed, it tells nothing of them.
func (z *Sealer) Cuts(data []byte, plainly func([]byte) uint32) uint32 {
	if z == nil {
		return plainly(data)
	}
	h := z.sum("pieces", data)
	return binary.LittleEndian.Uint32(h[:])
}
