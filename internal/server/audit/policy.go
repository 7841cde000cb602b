package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/server/auth"
)

// Level is how much is written of a request.
type Level uint8

// Each level writes what those below it do, and more.
const (
	None Level = iota
	Metadata
	Request
	RequestResponse
)

var levels = []string{"None", "Metadata", "Request", "RequestResponse"}

func (l Level) String() string { return levels[l] }

// Stage is when an event is written.
type Stage uint8

// A request goes through these in order, but that most have no ResponseStarted.
const (
	RequestReceived Stage = iota
	ResponseStarted
	ResponseComplete
	Panic
)

var stageNames = []string{"RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"}

// Policy says what is written.
type Policy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Rules             []Rule   `json:"rules"`
	OmitStages        []string `json:"omitStages,omitempty"`
	OmitManagedFields bool     `json:"omitManagedFields,omitempty"`
}

// Rule is one of a policy's.
type Rule struct {
	Level             string           `json:"level"`
	Users             []string         `json:"users,omitempty"`
	UserGroups        []string         `json:"userGroups,omitempty"`
	Verbs             []string         `json:"verbs,omitempty"`
	Resources         []GroupResources `json:"resources,omitempty"`
	Namespaces        []string         `json:"namespaces,omitempty"`
	NonResourceURLs   []string         `json:"nonResourceURLs,omitempty"`
	OmitStages        []string         `json:"omitStages,omitempty"`
	OmitManagedFields *bool            `json:"omitManagedFields,omitempty"`

	level Level
	// omitted has a bit for each stage.
	omitted           uint8
	omitManagedFields bool
}

// GroupResources are resources of a group.
type GroupResources struct {
	Group         string   `json:"group,omitempty"`
	Resources     []string `json:"resources,omitempty"`
	ResourceNames []string `json:"resourceNames,omitempty"`
}

// ParsePolicy reads a policy, strictly.
func ParsePolicy(text []byte) (*Policy, error) {
	p := &Policy{}
	if err := yaml.UnmarshalStrict(text, p); err != nil {
		return nil, fmt.Errorf("failed decoding: %w", err)
	}
	if p.APIVersion != "audit.k8s.io/v1" || p.Kind != "Policy" {
		return nil, fmt.Errorf("unknown group version field %q of kind %q in policy, audit.k8s.io/v1 Policy is known", p.APIVersion, p.Kind)
	}
	if len(p.Rules) == 0 {
		return nil, errors.New("loaded illegal policy with 0 rules")
	}
	if _, err := bits(p.OmitStages); err != nil {
		return nil, fmt.Errorf("omitStages%w", err)
	}
	for i := range p.Rules {
		if err := p.Rules[i].compile(p); err != nil {
			return nil, fmt.Errorf("rules[%d].%w", i, err)
		}
	}
	return p, nil
}

// bits has one for each stage of a list.
func bits(stages []string) (b uint8, err error) {
	for i, s := range stages {
		n := slices.Index(stageNames, s)
		if n < 0 {
			return 0, fmt.Errorf("[%d]: Invalid value: %q: allowed stages are %s", i, s, strings.Join(stageNames, ","))
		}
		b |= 1 << n
	}
	return b, nil
}

func (r *Rule) compile(p *Policy) (err error) {
	n := slices.Index(levels, r.Level)
	if n < 0 {
		return fmt.Errorf("level: Unsupported value: %q: supported values: %q", r.Level, levels)
	}
	r.level = Level(n)
	if r.omitted, err = bits(append(slices.Clone(p.OmitStages), r.OmitStages...)); err != nil {
		return fmt.Errorf("omitStages%w", err)
	}
	r.omitManagedFields = p.OmitManagedFields
	if r.OmitManagedFields != nil {
		r.omitManagedFields = *r.OmitManagedFields
	}
	if len(r.NonResourceURLs) > 0 && (len(r.Resources) > 0 || len(r.Namespaces) > 0) {
		return errors.New("nonResourceURLs: Invalid value: rules cannot apply to both regular resources and non-resource URLs")
	}
	for i, url := range r.NonResourceURLs {
		switch {
		case url == "*":
		case !strings.HasPrefix(url, "/"):
			return fmt.Errorf("nonResourceURLs[%d]: Invalid value: %q: non-resource URL rules must begin with a '/' character", i, url)
		case strings.ContainsRune(url[:len(url)-1], '*'):
			return fmt.Errorf("nonResourceURLs[%d]: Invalid value: %q: non-resource URL wildcards '*' must be the final character of the rule", i, url)
		}
	}
	for i, g := range r.Resources {
		if strings.HasSuffix(g.Group, "/v1") || strings.Contains(g.Group, "/") {
			return fmt.Errorf("resources[%d].group: Invalid value: %q: is not the name of a group", i, g.Group)
		}
		if len(g.ResourceNames) > 0 && len(g.Resources) == 0 {
			return fmt.Errorf("resources[%d].resourceNames: Invalid value: using resourceNames requires at least one resource", i)
		}
	}
	return nil
}

// find is the rule for a request, or nil.
func (p *Policy) find(a *auth.Attributes) *Rule {
	for i := range p.Rules {
		if r := &p.Rules[i]; r.matches(a) {
			return r
		}
	}
	return nil
}

func (r *Rule) matches(a *auth.Attributes) bool {
	if len(r.Users) > 0 && !slices.Contains(r.Users, a.User.Name) {
		return false
	}
	if len(r.UserGroups) > 0 && !slices.ContainsFunc(a.User.Groups, func(g string) bool { return slices.Contains(r.UserGroups, g) }) {
		return false
	}
	if len(r.Verbs) > 0 && !slices.Contains(r.Verbs, a.Verb) {
		return false
	}
	if len(r.Namespaces) > 0 || len(r.Resources) > 0 {
		return a.IsResource && r.matchesResource(a)
	}
	if len(r.NonResourceURLs) > 0 {
		return !a.IsResource && slices.ContainsFunc(r.NonResourceURLs, func(url string) bool { return matchesPath(url, a.Path) })
	}
	return true
}

func matchesPath(url, path string) bool {
	if url == "*" || url == path {
		return true
	}
	prefix, open := strings.CutSuffix(url, "*")
	return open && strings.HasPrefix(path, prefix)
}

func (r *Rule) matchesResource(a *auth.Attributes) bool {
	if len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, a.Namespace) {
		return false
	}
	if len(r.Resources) == 0 {
		return true
	}
	return slices.ContainsFunc(r.Resources, func(g GroupResources) bool {
		if g.Group != a.Group {
			return false
		}
		return len(g.Resources) == 0 || slices.ContainsFunc(g.Resources, func(name string) bool {
			return matchesName(name, a) && (len(g.ResourceNames) == 0 || slices.Contains(g.ResourceNames, a.Name))
		})
	})
}

// matchesName compares "pods", "pods/log", "pods/*", "*/scale" and "*" with a request.
func matchesName(name string, a *auth.Attributes) bool {
	resource, sub, both := strings.Cut(name, "/")
	switch {
	case name == "*":
		return true
	case !both:
		return name == a.Resource && a.Subresource == ""
	}
	return (resource == "*" || resource == a.Resource) && (sub == "*" || sub == a.Subresource) && (a.Subresource != "" || sub == "*" && resource == a.Resource)
}
