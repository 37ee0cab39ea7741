package secret

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// A variable is an environment variable whose value is a secret.
type variable struct{ name, value string }

// environmentSecrets returns the variables whose name is that of a secret and whose value is long
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

// forms returns the forms in which a value may occur in a file. The JSON form has a separate
// entry only if it differs, because decoded strings are searched, too.
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
