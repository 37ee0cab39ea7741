package record

import (
	"crypto/aes"
	"crypto/cipher"
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

// Sealed is the encoding of encrypted bytes: this number, a nonce, the ciphertext and its tag. Bytes are
// compressed before they are sealed.
const Sealed Encoding = 3

// The errors of [Sealer.Open].
var (
	errPlain  = errors.New("it is not encrypted, but the store is sealed")
	errSealed = errors.New("it cannot be decrypted with the store's key: it was changed or moved")
)

// Sealer encrypts and authenticates the values of a store. A value cannot be read without the key, and a value that was
// changed or moved to another place cannot be opened. A store without a key has a nil Sealer, which returns everything
// unchanged. All methods are safe for concurrent use.
type Sealer struct {
	cipher  xaes
	termKey []byte // key of the hashes in indexes
	digests cipher.Block
}

// Mark is stored unencrypted, to recognize the store's key. It contains a version, a random salt and a check value,
// which does not reveal the key.
//
// The keys of a store are derived with its salt. Another store cannot open its values, even if the user
// gives both the same key.
type Mark []byte

const (
	markVersion = 1
	markSalt    = 32
	markCheck   = 16
	markLength  = 1 + markSalt + markCheck
)

// keyLength is the length of a key in bytes.
const keyLength = 32

// Unlock returns the sealer of the store called name, or nil if the store is not sealed. key is nil if the user gave
// none, and mark is nil if the store has none. For a new store, Unlock returns a mark that the caller must store before
// it writes anything else. The error has [segno.KindRefused] if key is not the key of the store.
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

// CheckKey returns an error with [segno.KindInvalid] unless key has 32 bytes or is nil, which means
// no key.
func CheckKey(key []byte) error {
	if key == nil || len(key) == keyLength {
		return nil
	}
	return segno.Errorf(segno.KindInvalid, "open store", "", "the key is not 32 bytes long").WithHint("give 32 random bytes, or derive them from a passphrase with a function made for that")
}

// newSealer derives the keys and the check value of the store with a mark.
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
	digests := derive("digests", 32)
	if err != nil {
		return nil, nil, err
	}
	z = &Sealer{termKey: terms}
	if z.cipher, err = newXAES(records); err == nil {
		z.digests, err = aes.NewCipher(digests)
	}
	return z, check, err
}

// Seal encrypts plain for its place, which is the kind of the value and the ids that identify it.
func (z *Sealer) Seal(plain []byte, place ...string) []byte {
	if z == nil {
		return plain
	}
	out := make([]byte, 1+xaesNonce, 1+xaesNonce+len(plain)+xaesTag)
	out[0] = byte(Sealed)
	nonce := out[1:]
	rand.Read(nonce)
	var buf [256]byte
	out, err := z.cipher.seal(out, nonce, plain, appendParts(buf[:0], place))
	if err != nil {
		panic("segno: internal error: sealing: " + err.Error())
	}
	return out
}

// Open decrypts a value that was sealed for a place. It fails if the value was not sealed, was sealed with
// another key or for another place, or was changed.
func (z *Sealer) Open(sealed []byte, place ...string) ([]byte, error) {
	switch {
	case z == nil:
		return sealed, nil
	case len(sealed) == 0 || sealed[0] != byte(Sealed):
		return nil, errPlain
	case len(sealed) < 1+xaesNonce+xaesTag:
		return nil, errSealed
	}
	var buf [256]byte
	plain, err := z.cipher.open(sealed[1:1+xaesNonce], sealed[1+xaesNonce:], appendParts(buf[:0], place))
	if err != nil {
		return nil, errSealed
	}
	if plain == nil {
		plain = []byte{}
	}
	return plain, nil
}

// appendParts appends the parts of a place with their lengths, so that different parts give different bytes.
func appendParts(dst []byte, parts []string) []byte {
	for _, part := range parts {
		dst = binary.AppendUvarint(dst, uint64(len(part)))
		dst = append(dst, part...)
	}
	return dst
}

func (z *Sealer) sum(kind string, value []byte) (h segno.Hash) {
	mac := hmac.New(sha256.New, z.termKey)
	mac.Write(appendParts(nil, []string{kind}))
	mac.Write(value)
	mac.Sum(h[:0])
	return h
}

// Hash returns the hash that a sealed store writes instead of h, a hash of the user's bytes. Otherwise anyone with a
// copy of a file could search the store for its hash. The zero hash stays zero.
func (z *Sealer) Hash(kind string, h segno.Hash) segno.Hash {
	if z == nil || h.IsZero() {
		return h
	}
	return z.sum(kind, h[:])
}

// DigestLength is the length of the digest by which a store recognizes a repeated commit.
const DigestLength = aes.BlockSize

// SealDigest returns the bytes that a sealed store writes instead of a commit's digest. The digest has DigestLength
// bytes. Equal digests give equal bytes, so that a database can compare them.
func (z *Sealer) SealDigest(digest []byte) []byte {
	if z == nil {
		return digest
	}
	out := make([]byte, DigestLength)
	z.digests.Encrypt(out, digest)
	return out
}

// OpenDigest is the inverse of SealDigest.
func (z *Sealer) OpenDigest(sealed []byte) []byte {
	if z == nil {
		return sealed
	}
	out := make([]byte, DigestLength)
	z.digests.Decrypt(out, sealed)
	return out
}

var nameText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Name returns the text that a sealed store writes instead of a name by which it finds records.
func (z *Sealer) Name(kind, value string) string {
	if z == nil || value == "" {
		return value
	}
	h := z.sum(kind, []byte(value))
	return nameText.EncodeToString(h[:20])
}

// Cuts returns a checksum of data, which has the names of an object's pieces. In a sealed store, the checksum is keyed.
func (z *Sealer) Cuts(data []byte, plainly func([]byte) uint32) uint32 {
	if z == nil {
		return plainly(data)
	}
	h := z.sum("pieces", data)
	return binary.LittleEndian.Uint32(h[:])
}
