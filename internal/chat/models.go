package chat

import (
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
)

// Models has the constructors of models that need dependencies outside this module, by provider, as
// "anthropic". The offline model is always available.
type Models map[string]func(name string, getenv func(string) string) (agent.Model, error)

// Open returns the model that the value of a flag names.
func (m Models) Open(spec string, getenv func(string) string) (agent.Model, error) {
	provider, name, _ := strings.Cut(spec, "/")
	if provider == "offline" && (name == "" || name == "plain") {
		return offline.New(), nil
	}
	if open, ok := m[provider]; ok && name != "" {
		return open(name, getenv)
	}
	known := []string{"offline"}
	for p := range m {
		known = append(known, p+"/NAME")
	}
	slices.Sort(known)
	return nil, segno.Errorf(segno.KindInvalid, "find model", spec, "unknown model").WithHint("use --model " + strings.Join(known, ", "))
}
