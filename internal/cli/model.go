package cli

import (
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
)

// Model returns the model that the value of a flag names.
func (a *App) Model(spec string) (agent.Model, error) {
	provider, name, _ := strings.Cut(spec, "/")
	if provider == "offline" && (name == "" || name == "plain") {
		return offline.New(), nil
	}
	if open, ok := a.Models[provider]; ok && name != "" {
		return open(name, a.Getenv)
	}
	known := []string{"offline"}
	for p := range a.Models {
		known = append(known, p+"/NAME")
	}
	slices.Sort(known)
	return nil, segno.Errorf(segno.KindInvalid, "find model", spec, "unknown model").WithHint("use --model " + strings.Join(known, ", "))
}
