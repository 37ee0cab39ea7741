package secret

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// A variable is an environment variable that has a secret.
type variable struct{ name, value string }

// environmentSecrets picks the variables with the name of a secret and a value that is long
// enough not to occur by chance.
func environmentSecrets(environ []string) []variable {
	var found []variable
	for _, e := range environ {
		name, value, ok := strings.Cut(e, "=")
		if !ok || len(value) < 12 || !hasSecretName(name) || isPlaceholder(value) || strings.HasPrefix(value, "/") {
			continue
		}
		if entropy(value) < 2.5 {
			continue
		}
		found = append(found, variable{name, value})
	}
	return found
}

func hasSecretName(name string) bool {
	for part := range strings.SplitSeq(strings.ToUpper(name), "_") {
		switch part {
		case "KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASS", "PWD", "CREDENTIAL", "CREDENTIALS", "AUTH", "PAT", "PASSPHRASE":
			return name != "PWD" && name != "OLDPWD"
		}
	}
	return false
}

// forms returns the ways in which a value may stand in a file. The form in JSON needs no
// entry of its own unless it differs: decoded strings are searched, too.
func (v variable) forms() []string {
	escaped, err := json.Marshal(v.value)
	forms := []string{v.value, url.QueryEscape(v.value), base64.StdEncoding.EncodeToString([]byte(v.value)),
		base64.RawURLEncoding.EncodeToString([]byte(v.value))}
	if err == nil {
		forms = append(forms, strings.Trim(string(escaped), `"`))
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}
