package secret

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

//go:embed rules.txt
var rulesText string

// A rule is one kind of secret. In rules.txt it is a block of lines "name value":
//
//	rule      the name that findings carry
//	about     the kind of secret, for a person
//	keywords  strings of which one must be there, in any case
//	token     a pattern that begins at a keyword, which begins a word
//	assign    a pattern for the value that an assignment to the keyword has: KEY=value,
//	          "key": "value", key := `value`, <key>value, key("value")
//	near      a pattern that is searched for around the keyword
//	with      characters that every match has behind the keyword; without them in the window
//	          the pattern is not tried
//	entropy   the least Shannon entropy of the value, in bits a character
//	window    bytes from the keyword on that the pattern may need; 320 if not given
//	before    bytes before the keyword that a near pattern may need; 128 if not given
//	decodes   userpass: the value must be base64 of user:password
//	password  the value is chosen by a person: more placeholders are excluded
//	quoted    the value must be in quotes or follow KEY= without a space
//	mixed     the value must contain a digit and a letter, and look random
//	true      an example that the rule must find
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
	quoted      bool
	mixed       bool
	yes, no     []string
}

type matchKind int

const (
	matchToken matchKind = iota + 1
	matchAssign
	matchNear
)

const (
	defaultWindow = 320
	defaultBefore = 128
)

// parseRules reads the blocks of rules.txt.
func parseRules(text string) ([]*rule, error) {
	var rules []*rule
	var r *rule
	lines := bufio.NewScanner(strings.NewReader(text))
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
			return nil, fmt.Errorf("rules.txt:%d: a line before the first rule", n)
		}
		if err := r.set(name, value); err != nil {
			return nil, fmt.Errorf("rules.txt:%d: %w", n, err)
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
	case "token":
		r.kind = matchToken
		r.pattern, err = regexp.Compile(`\A(?:` + value + `)`)
	case "assign":
		r.kind = matchAssign
		r.pattern, err = regexp.Compile(`\A(?:` + value + `)`)
	case "near":
		r.kind = matchNear
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
	case "password":
		r.password = true
	case "quoted":
		r.quoted = true
	case "mixed":
		r.mixed = true
	case "true":
		r.yes = append(r.yes, value)
	case "false":
		r.no = append(r.no, value)
	default:
		err = fmt.Errorf("unknown line %q", name)
	}
	return err
}

// rulesDigest names the rules, so that a verdict of other rules is not taken for one of these.
func rulesDigest() [sha256.Size]byte { return sha256.Sum256([]byte(rulesText)) }
