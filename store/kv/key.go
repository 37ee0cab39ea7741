package kv

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"

	"github.com/dalsegno/segno"
)

// mostEscaped is how long an id may be in a key; of a longer one the hash stands
// there, and the id itself in the value.
const mostEscaped = 192

// escape writes an id so that it holds no separator of ours, printable, and no
// two ids are written alike.
func escape(id string) string {
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() <= mostEscaped {
		return b.String()
	}
	sum := sha256.Sum256([]byte(id))
	return string(hashMark) + hex.EncodeToString(sum[:])
}

// hashMark begins what stands for an id that is too long; escape writes it nowhere
// else.
const hashMark = '~'

// unescape returns the id that was escaped, or "" if it was not.
func unescape(text string) string {
	id, err := url.PathUnescape(text)
	if err != nil {
		return ""
	}
	return id
}

// The areas of a thread's records.
const (
	areaLog = 'l' // its own, by position from 1
	areaOld = 'o' // what a fork inherited and copied, oldest first from 1
)

// place is where a record is.
type place struct {
	thread segno.ThreadID
	area   byte
	pos    uint64
}

func (p place) key() string {
	return fmt.Sprintf("%s%s/%020d", threadGroup(p.thread), areaName(p.area), p.pos)
}

// claim is the name of a place within a group of look-ups.
func (p place) claim() string {
	return fmt.Sprintf("%s/%c%d", escape(string(p.thread)), p.area, p.pos)
}

func areaName(area byte) string {
	if area == areaOld {
		return "old"
	}
	return "log"
}

func threadGroup(t segno.ThreadID) string { return "t{" + escape(string(t)) + "}" }
func headKey(t segno.ThreadID) string     { return threadGroup(t) + "head" }
func leaseKey(t segno.ThreadID) string    { return threadGroup(t) + "lease" }

func bodyKey(t segno.ThreadID, tag string, chunk int) string {
	return fmt.Sprintf("%sbody/%s/%06d", threadGroup(t), tag, chunk)
}

// Groups that cross threads.
const (
	threadsGroup = "threads{}" // a key per thread: all there are
	pinsGroup    = "pins{}"    // a key per record that sets or takes off a pin
)

func threadsKey(t segno.ThreadID) string   { return threadsGroup + escape(string(t)) }
func commitGroup(id segno.CommitID) string { return "c{" + escape(string(id)) + "}" }

// sealKey holds what a sealed store knows its key by. Alone of all values it is never
// sealed itself.
const sealKey = "seal{}mark"

// What sessions and objects are called says something of what is kept, so that in a
// sealed store something else stands for it.

func (s *Store) sessionGroup(id segno.SessionID) string {
	return "s{" + escape(s.code.seal.Name("session", string(id))) + "}"
}

func (s *Store) objectGroup(h segno.Hash) string {
	return "o{" + s.code.seal.Hash("object", h).String() + "}"
}
func (s *Store) objectKey(h segno.Hash) string { return s.objectGroup(h) + "kept" }
func (s *Store) objectChunk(h segno.Hash, sum uint32, chunk int) string {
	return fmt.Sprintf("%sdata/%08x/%06d", s.objectGroup(h), sum, chunk)
}

func packKey(name string) string { return "p{" + escape(name) + "}pack" }
