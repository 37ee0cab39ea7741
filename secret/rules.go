package secret

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ruleFiles has a file for each kind of issuer.
//
//go:embed rules/*.txt
var ruleFiles embed.FS

// A rule is one kind of secret. In a file of rules it is a block of lines "name value". All rules
// together cost one pass over a text, because one automaton finds all their keywords:
//
//	rule      the name that findings carry
//	about     the kind of secret, for a person
//	keywords  strings of which one must be there, in any case; @ stands for a space
//	token     a pattern that begins at a keyword, which begins a word and is in the same case
//	assign    a pattern for the value that an assignment to the keyword has; assignment.go
//	          has the forms of assignments
//	near      a pattern that is searched for around the keyword
//	with      characters that every match has behind the keyword; without them in the window
//	          the pattern is not tried
//	entropy   the least Shannon entropy of the value, in bits a character
//	window    bytes from the keyword on that the pattern may need; 320 if not given
//	before    bytes before the keyword that a near pattern may need; 128 if not given
//	decodes   userpass: the value must be base64 of user:password
//	password  the value is chosen by a person: more placeholders are excluded
//	strict    the assignment must not be one that an expression of a program can have:
//	          the value is in quotes, follows KEY= without a space, ends a line of YAML, or
//	          is an element of XML
//	whole     the name is the keyword
//	setting   the assignment is one of an environment variable, which begins a line
//	named     the name with the keyword must contain a word such as key or token
//	mixed     the value must contain a digit and a letter, and look random; with the value
//	          "loose", also if it is a number of base 16 or has letters of one case only
//	generic   only the name before a value gives it away: a finding of another rule for the
//	          same value replaces that of this one
//	true      an example that the rule must find; {a36} stands for 36 random characters of a
//	          class, and examples_test.go has the classes
//	false     an example that it must not find
//
// The value is the pattern's first group, or all of it.
type rule struct {
	name, about string
	keywords    []string
	kind        matchKind
	pattern     *regexp.Regexp
	with        []byte
	entropy     float64
	window      int
	before      int
	userPass    bool
	password    bool
	strict      bool
	whole       bool
	setting     bool
	named       bool
	mixed       mixing
	generic     bool
	yes, no     []string
}

type matchKind int

const (
	matchToken matchKind = iota + 1
	matchAssign
	matchNear
)

// mixing is how random a value must look.
type mixing int

const (
	mixedAny mixing = iota
	mixedStrict
	mixedLoose
)

const (
	defaultWindow = 320
	defaultBefore = 128
)

// readRules reads all rules. The digest identifies them, so that a scanner with other rules does not
// use a verdict of these.
func readRules() (rules []*rule, digest [sha256.Size]byte, err error) {
	files, err := ruleFiles.ReadDir("rules")
	if err != nil {
		return nil, digest, err
	}
	hash := sha256.New()
	hash.Write([]byte("2")) // increases whenever the code finds more than before
	for _, f := range files {
		text, err := ruleFiles.ReadFile("rules/" + f.Name())
		if err != nil {
			return nil, digest, err
		}
		hash.Write(text)
		more, err := parseRules(f.Name(), text)
		if err != nil {
			return nil, digest, err
		}
		rules = append(rules, more...)
	}
	hash.Sum(digest[:0])
	return rules, digest, nil
}

// parseRules reads the rules of a file.
func parseRules(file string, text []byte) ([]*rule, error) {
	var rules []*rule
	var r *rule
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, _ := strings.Cut(line, " ")
		if name == "rule" {
			r = &rule{name: value, window: defaultWindow, before: defaultBefore}
			rules = append(rules, r)
			continue
		}
		if r == nil {
			return nil, fmt.Errorf("%s:%d: a line before the first rule", file, n)
		}
		if err := r.set(name, value); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	return rules, nil
}

func (r *rule) set(name, value string) (err error) {
	switch name {
	case "about":
		r.about = value
	case "keywords":
		for _, k := range strings.Fields(value) {
			r.keywords = append(r.keywords, strings.ReplaceAll(k, "@", " "))
		}
	case "token", "assign", "near":
		r.kind = map[string]matchKind{"token": matchToken, "assign": matchAssign, "near": matchNear}[name]
		if r.kind != matchNear {
			value = `\A(?:` + value + `)`
		}
		r.pattern, err = regexp.Compile(value)
	case "with":
		r.with = []byte(value)
	case "entropy":
		r.entropy, err = strconv.ParseFloat(value, 64)
	case "window":
		r.window, err = strconv.Atoi(value)
	case "before":
		r.before, err = strconv.Atoi(value)
	case "decodes":
		r.userPass = value == "userpass"
	case "mixed":
		r.mixed = map[string]mixing{"": mixedStrict, "loose": mixedLoose}[value]
	case "true":
		r.yes = append(r.yes, value)
	case "false":
		r.no = append(r.no, value)
	default:
		flag := r.flags()[name]
		if flag == nil {
			return fmt.Errorf("unknown line %q", name)
		}
		*flag = true
	}
	return err
}

// flags returns the fields that a line without a value sets.
func (r *rule) flags() map[string]*bool {
	return map[string]*bool{"password": &r.password, "strict": &r.strict, "whole": &r.whole, "setting": &r.setting, "named": &r.named,
		"generic": &r.generic}
}
