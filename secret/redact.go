package secret

import (
	"strings"
)

// Redact returns text without its secrets, and these secrets. A mark with the kind of secret replaces
// each value. If text contains a value only in encoded form, or if a rule recognizes only the value's
// beginning, Redact leaves out the whole text. allowed reports whether the user allows the value with a
// fingerprint.
func (s *Scanner) Redact(path, text string, allowed func(fingerprint string) bool) (string, []Finding) {
	var all []Finding
	for {
		found := s.find(path, text, allowed)
		if len(found) == 0 {
			return text, all
		}
		before := text
		for _, f := range found {
			mark := "[" + f.About + " was left out]"
			if strings.ContainsAny(f.value, "\r\n ") || f.Rule == "private-key" {
				text = mark
				break
			}
			text = strings.ReplaceAll(text, f.value, mark)
		}
		if all == nil {
			all = withoutValues(found)
		}
		if text == before {
			return "[" + found[0].About + " was left out]", all
		}
	}
}

// find returns the findings in text that the user does not allow, with their values.
func (s *Scanner) find(path, text string, allowed func(fingerprint string) bool) (found []Finding) {
	x := s.Start(path)
	_, _ = x.Write([]byte(text)) // a Scan never fails
	for _, f := range x.end() {
		if !allowed(f.Fingerprint) {
			found = append(found, f)
		}
	}
	return found
}
