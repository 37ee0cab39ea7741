package secret

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"sync"
)

// Options are the secrets that a scanner knows beside its rules.
type Options struct {
	// Key is the secret of this installation for making fingerprints. The same
	// value has the same fingerprint under the same key. If the key is empty, anyone can compute
	// the fingerprint of a guess.
	Key []byte
	// Environ lists variables as os.Environ does. The scanner searches for the values of variables
	// with the name of a secret, also in their base64 and URL-encoded forms.
	Environ []string
}

// A Scanner finds secrets in any number of files. It is safe for concurrent use.
type Scanner struct {
	key   []byte
	words *keywords
	rules []*rule // by the index of a word
	// exact contains the values of the environment, by the index of a word; "" for words of rules.
	exact []string
	// tokens contains the words that count only in their own case and at the beginning of a word of the
	// text, by the index of a word.
	tokens []string
	digest [sha256.Size]byte
	// buffers contains memory of ended scans for reuse, as *[]byte, because most files are small.
	buffers sync.Pool
}

// buffer returns memory for at least size bytes.
func (s *Scanner) buffer(size int) *[]byte {
	if b, ok := s.buffers.Get().(*[]byte); ok && cap(*b) >= size {
		return b
	}
	b := make([]byte, 0, size)
	return &b
}

// New returns a scanner. It fails only if a rule is malformed.
func New(o Options) (*Scanner, error) {
	rules, d, err := readRules()
	if err != nil {
		return nil, err
	}
	s := &Scanner{key: slices.Clone(o.Key)}
	var words []string
	add := func(word string, r *rule, exact string) {
		words = append(words, word)
		s.rules = append(s.rules, r)
		s.exact = append(s.exact, exact)
		if r.kind != matchToken {
			word = ""
		}
		s.tokens = append(s.tokens, word)
	}
	for _, r := range rules {
		for _, k := range r.keywords {
			add(k, r, "")
		}
	}
	digest := hmac.New(sha256.New, s.key)
	digest.Write(d[:])
	for _, v := range environmentSecrets(o.Environ) {
		digest.Write([]byte(v.value + "\x00"))
		r := &rule{name: "environment", about: "the value of $" + v.name}
		for _, form := range v.forms() {
			add(form, r, form)
		}
	}
	digest.Sum(s.digest[:0])
	s.words = newKeywords(words)
	return s, nil
}

// Digest identifies the rules, the values of the environment and the key. A verdict about a
// content holds for every scanner with the same digest.
func (s *Scanner) Digest() [sha256.Size]byte { return s.digest }

// A Finding is an occurrence of a secret.
type Finding struct {
	Path   string `json:"path"`   // as it was given to Start
	Record int    `json:"record"` // the line, from 1 on; in JSON lines the record; 0 if it is not in the content
	Rule   string `json:"rule"`
	About  string `json:"about"` // the kind of secret, for a person
	// Sample is the value's beginning and length, enough to recognise it and too little
	// to use it.
	Sample string `json:"sample"`
	// Fingerprint identifies the value: 16 hex digits of its HMAC-SHA-256 under Options.Key.
	Fingerprint string `json:"fingerprint"`

	value   string
	generic bool // of the rule
}

func (s *Scanner) finding(x *Scan, r *rule, record int, value string) Finding {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(value))
	return Finding{
		Path: x.path, Record: record, Rule: r.name, About: r.about, Sample: mask(value),
		Fingerprint: hex.EncodeToString(mac.Sum(nil)[:8]), value: value, generic: r.generic,
	}
}

// A Scan is the scan of one file. It is an io.Writer that takes the file's bytes and never
// fails. It must not be used concurrently.
type Scan struct {
	scanner  *Scanner
	path     string
	memory   *[]byte // of the raw layer
	raw      *layer
	utf16    *utf16Decoder // nil for nearly every file
	wide     *layer        // the text in UTF-16
	started  bool
	line     int // line of the raw text, while encoded text in it is decoded
	findings []Finding
	seen     map[string]bool // rule and value
}

var _ io.Writer = (*Scan)(nil)

// Start begins the scan of a file. Findings contain path; the scan does not open it.
func (s *Scanner) Start(path string) *Scan {
	x := &Scan{scanner: s, path: path, seen: map[string]bool{}}
	x.memory = s.buffer(0)
	x.raw = &layer{scan: x, record: 1, buf: (*x.memory)[:0]}
	return x
}

// sniff is how many bytes at the beginning must not contain a NUL byte for a file to count as text.
const sniff = 8 << 10

func (x *Scan) Write(p []byte) (int, error) {
	n := len(p)
	x.judge(p)
	for len(p) > 0 {
		piece := p[:min(len(p), pieceSize)]
		x.raw.write(piece)
		if x.utf16 != nil {
			x.wide.write(x.utf16.decode(piece))
		}
		p = p[len(piece):]
	}
	return n, nil
}

// judge decides by the first bytes of a file whether it is text, and whether it may be in UTF-16. If the
// first write has fewer bytes than sniff, judge decides by these alone.
func (x *Scan) judge(p []byte) {
	if x.started || len(p) == 0 {
		return
	}
	x.started = true
	p = p[:min(len(p), sniff)]
	x.raw.text = bytes.IndexByte(p, 0) < 0
	if x.utf16 = newUTF16Decoder(p); x.utf16 != nil {
		x.wide = &layer{scan: x, record: x.raw.record, text: true}
	}
}

// Skip takes bytes that are known to be clean. It counts their lines and does not search them.
// It must be called before the first Write, with bytes that end with a line. The file must not be in
// UTF-16.
func (x *Scan) Skip(p []byte) {
	x.judge(p)
	x.raw.record += bytes.Count(p, newline)
}

// Close ends the scan and returns the findings, in the order of records. A value that
// occurs several times is one finding with its first record.
func (x *Scan) Close() []Finding { return withoutValues(x.end()) }

// end is Close, but its findings contain the values.
func (x *Scan) end() []Finding {
	x.raw.end()
	if x.wide != nil {
		x.wide.end()
	}
	if x.memory != nil {
		*x.memory = x.raw.buf
		x.scanner.buffers.Put(x.memory)
		x.memory, x.raw.buf = nil, nil
	}
	found := x.findings
	// A generic rule also finds the values of specific rules, sometimes with more text around them.
	found = slices.DeleteFunc(found, func(f Finding) bool {
		return f.generic && slices.ContainsFunc(found, func(g Finding) bool {
			return !g.generic && (strings.Contains(f.value, g.value) || strings.Contains(g.value, f.value))
		})
	})
	slices.SortStableFunc(found, func(a, b Finding) int { return a.Record - b.Record })
	return found
}

// withoutValues returns found without the secrets.
func withoutValues(found []Finding) []Finding {
	for i := range found {
		found[i].value = ""
	}
	return found
}

// Scan reads a whole file. The error is the reader's.
func (s *Scanner) Scan(path string, r io.Reader) ([]Finding, error) {
	x := s.Start(path)
	memory := s.buffer(pieceSize)
	defer s.buffers.Put(memory)
	buf := (*memory)[:pieceSize]
	for {
		n, err := io.ReadFull(r, buf)
		_, _ = x.Write(buf[:n]) // a Scan never fails
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return x.Close(), nil
		default:
			return nil, err
		}
	}
}
