package main

import (
	"crypto/sha1"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"time"
)

// bill is a software bill of materials in the form of CycloneDX 1.6.
type bill struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	URL     string `json:"purl"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn,omitempty"`
}

// billOfMaterials lists the modules that are linked into a target's program, as the program itself tells them.
func (r *release) billOfMaterials(t target) error {
	built, err := buildinfo.ReadFile(r.program(t))
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(materials(built, r.version, t, r.commit.date), "", "  ")
	if err != nil {
		return err
	}
	return write(r.name(t.os, t.arch+".cdx.json"), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

func materials(built *debug.BuildInfo, version string, t target, date time.Time) bill {
	program := module("application", built.Main.Path, "v"+version)
	b := bill{
		Format: "CycloneDX", Spec: "1.6", Version: 1, Serial: serial(program.URL + " " + t.String() + " " + date.String()),
		Metadata: metadata{Timestamp: date.Format(time.RFC3339), Component: program},
	}
	standard := module("library", "std", built.GoVersion)
	needs := dependency{Ref: program.Ref, On: []string{standard.Ref}}
	b.Components = append(b.Components, standard)
	for _, m := range built.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := module("library", m.Path, m.Version)
		b.Components, needs.On = append(b.Components, c), append(needs.On, c.Ref)
	}
	b.Dependencies = []dependency{needs}
	return b
}

func module(kind, path, version string) component {
	url := "pkg:golang/" + path + "@" + version
	return component{Type: kind, Ref: url, Name: path, Version: version, URL: url}
}

// serial returns a UUID that is always the same for a text (version 5).
func serial(text string) string {
	sum := sha1.Sum([]byte(text))
	sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
