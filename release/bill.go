package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// component is a component of CycloneDX.
type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Licenses   []any      `json:"licenses,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// bill returns the software bill of materials in the form of CycloneDX 1.5: the modules in the binaries, and which of them
// imports which. Its serial number is derived from the commit, because a random one would differ between two builds.
func (r *release) bill() ([]entry, error) {
	library := func(path, version, sum string) component {
		purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
		c := component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
		if sum != "" {
			c.Properties = []property{{"go.sum", sum}}
		}
		return c
	}
	product := library(ownModule, "v"+r.version, "")
	product.Type, product.Licenses = "application", []any{map[string]any{"license": map[string]string{"id": "Apache-2.0"}}}
	product.Properties = []property{{"commit", r.revision}}
	std := library("std", strings.TrimPrefix(r.goVersion, "go"), "")
	components, refs := []component{std}, map[string]string{}
	for _, m := range r.modules {
		if m.path == ownModule {
			refs[m.path] = product.Ref
			continue
		}
		c := library(m.path, m.version, m.sum)
		components, refs[m.path] = append(components, c), c.Ref
	}
	dependencies := []dependency{{Ref: std.Ref}}
	for _, m := range r.modules {
		on := []string{std.Ref}
		for _, to := range slices.Sorted(maps.Keys(m.uses)) {
			on = append(on, refs[to])
		}
		dependencies = append(dependencies, dependency{refs[m.path], on})
	}
	id := sha256.Sum256([]byte(r.version + r.revision))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // UUID version 8: the other bits are this program's choice
	data, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"serialNumber": fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16]),
		"metadata":     map[string]any{"timestamp": r.time.Format(time.RFC3339), "component": product},
		"components":   components, "dependencies": dependencies,
	}, "", "  ")
	return []entry{{name: fmt.Sprintf("segno_%s_sbom.cdx.json", r.version), data: append(data, '\n')}}, err
}
