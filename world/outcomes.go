package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"

	"github.com/dalsegno/segno"
)

// Outcomes are the numbers, by name, with which a world measures how a simulation went, for example the number of fish
// caught. A document contains them in its member "outcomes". They are the basis of comparisons between generations of
// agents.
type Outcomes map[string]float64

// Measurer is an optional interface of [Rules] that measure how a simulation went.
type Measurer[S any] interface {
	// Outcomes returns the outcomes of a state. names are the names of the agents. It must not change s.
	Outcomes(s *S, names []string) Outcomes
}

const (
	maxOutcomes    = 64
	maxOutcomeName = 40
)

var outcomeName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// reservedNames are the names of the other columns of generation_chain.csv, the table that lists outcomes.
func reservedNames() []string {
	return []string{"generation", "agent_index", "agent_name", "run_id", "status", "template_in", "workspace_out", "start_utc", "end_utc",
		"duration_seconds", "ticks", "sim_seconds", "checkpoints", "tokens_in", "tokens_out", "reproducible", "why_not_reproducible"}
}

// Check returns an error for a name or a number that cannot be in the table of outcomes. The error has
// [segno.KindInvalid].
func (o Outcomes) Check() error {
	invalid := func(name, format string, args ...any) error {
		return segno.Errorf(segno.KindInvalid, "read outcomes", name, format, args...).WithHint("see the member outcomes in docs/worlds.md")
	}
	if len(o) > maxOutcomes {
		return invalid("", "there are %d of them, more than %d", len(o), maxOutcomes)
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		switch value := o[name]; {
		case len(name) > maxOutcomeName || !outcomeName.MatchString(name):
			return invalid(name, "a name is 1 to %d of the characters a-z, 0-9 and _, and begins with a letter", maxOutcomeName)
		case slices.Contains(reservedNames(), name):
			return invalid(name, "a column of segno has this name")
		case math.IsNaN(value) || math.IsInf(value, 0):
			return invalid(name, "its value is not a finite number")
		}
	}
	return nil
}

// ReadOutcomes returns the outcomes in a document of any world, or nil if it has none. The error has
// [segno.KindInvalid].
func ReadOutcomes(document []byte) (Outcomes, error) {
	var doc struct {
		Outcomes json.RawMessage `json:"outcomes"`
	}
	err := json.Unmarshal(document, &doc)
	if err != nil || doc.Outcomes == nil {
		return nil, invalidOutcomes(err)
	}
	o := Outcomes{}
	dec := json.NewDecoder(bytes.NewReader(doc.Outcomes))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return nil, invalidOutcomes(errors.New("they are not an object"))
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, invalidOutcomes(err)
		}
		value, err := dec.Token()
		number, isNumber := value.(float64)
		key, _ := name.(string) // a name of a member is always a string
		_, isRepeated := o[key]
		switch {
		case err != nil:
			return nil, invalidOutcomes(err)
		case !isNumber:
			return nil, invalidOutcomes(fmt.Errorf("%q is not a number", key))
		case isRepeated:
			return nil, invalidOutcomes(fmt.Errorf("%q is there twice", key))
		}
		o[key] = number
	}
	return o, o.Check()
}

// invalidOutcomes returns the error for outcomes that cannot be read, or nil.
func invalidOutcomes(err error) error {
	if err == nil {
		return nil
	}
	return segno.NewError(segno.KindInvalid, "read outcomes", "", err).WithHint("see the member outcomes in docs/worlds.md")
}
