package kv

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// maxEscaped is the length up to which an id is part of a key. For a longer id, the key contains
// the SHA-256, and the value contains the id.
const maxEscaped = 192

// hashMark begins the SHA-256 of a long id. escape never writes this character.
const hashMark = '~'

// escape returns an id in the form that keys use: printable, without the separators of keys, and
// different for different ids.
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
	if b.Len() <= maxEscaped {
		return b.String()
	}
	sum := sha256.Sum256([]byte(id))
	return string(hashMark) + hex.EncodeToString(sum[:])
}

// unescape returns the id that was escaped, or "" if text is not an escaped id.
func unescape(text string) string {
	id, err := url.PathUnescape(text)
	if err != nil {
		return ""
	}
	return id
}

// A thread has its records in two areas.
const (
	areaLog = 'l' // the thread's own records, with positions from 1
	areaOld = 'o' // the records that a fork copied from its source, oldest first, with positions from 1
)

// position is the place of a record.
type position struct {
	thread segno.ThreadID
	area   byte
	pos    uint64
}

func (p position) key() string {
	digits := strconv.FormatUint(p.pos, 10)
	return areaPrefix(p.thread, p.area) + "00000000000000000000"[len(digits):] + digits
}

// lookUpName returns the part of a look-up's key that names the position.
func (p position) lookUpName() string {
	return escape(string(p.thread)) + "/" + string(p.area) + strconv.FormatUint(p.pos, 10)
}

func areaPrefix(t segno.ThreadID, area byte) string {
	if area == areaOld {
		return threadGroup(t) + "old/"
	}
	return threadGroup(t) + "log/"
}

func threadGroup(t segno.ThreadID) string { return "t{" + escape(string(t)) + "}" }
func headKey(t segno.ThreadID) string     { return threadGroup(t) + "head" }
func leaseKey(t segno.ThreadID) string    { return threadGroup(t) + "lease" }

func bodyKey(t segno.ThreadID, tag string, part int) string {
	return fmt.Sprintf("%sbody/%s/%06d", threadGroup(t), tag, part)
}

// Groups and keys for the whole store.
const (
	threadsGroup = "threads{}"    // one key for each thread
	openGroup    = "open{}"       // one key for each thread that may have an open turn
	phasesKey    = "phases{}made" // exists once openGroup includes the threads of older versions
	pinsGroup    = "pins{}"       // one key for each record that sets or removes a pin
	usingGroup   = "using{}"      // one key for each commit for which an erasure must wait
	erasingKey   = "erasing{}by"  // exists during an erasure
	sealKey      = "seal{}mark"   // identifies the key of a sealed store; the only value that is never sealed
)

func commitGroup(id segno.CommitID) string { return "c{" + escape(string(id)) + "}" }

// The names of sessions and objects reveal some of the content. In a sealed store, keyed hashes
// replace them.

func (s *Store) sessionGroup(id segno.SessionID) string {
	return "s{" + escape(s.code.seal.Name("session", string(id))) + "}"
}

func (s *Store) objectGroup(h segno.Hash) string {
	return "o{" + s.code.seal.Hash("object", h).String() + "}"
}

func (s *Store) objectKey(h segno.Hash) string { return s.objectGroup(h) + "kept" }

func (s *Store) objectPart(h segno.Hash, sum uint32, part int) string {
	return fmt.Sprintf("%sdata/%08x/%06d", s.objectGroup(h), sum, part)
}
