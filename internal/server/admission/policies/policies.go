package policies

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/millrace/millrace/internal/server/admission/attributes"
	"github.com/millrace/millrace/internal/server/admission/concern"
	"github.com/millrace/millrace/internal/server/admission/match"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// Options say what the plugins stand on. Registry is required.
type Options struct {
	Registry *registry.Registry
	// Authorize answers expressions that ask about permissions.
	Authorize auth.Authorizer
	// Types is the schema by which apply configurations are merged into objects of a face. Nil has none.
	Types func(*resource.Face) (managedfields.TypeConverter, error)
	// Static are policies and bindings that are not in the API, by the names of the plugins.
	Static map[string]concern.Static
	// Shared says that other servers write to the store.
	Shared  bool
	Metrics Metrics
	Logger  *slog.Logger
}

// Metrics are told of policies. They are called by many goroutines.
type Metrics interface {
	// Checked is told of each decision that was not simply to admit: what went wrong, if anything did, and what was
	// done.
	Checked(policy, binding, errorType, action string, took time.Duration)
	// Mutated is told of each mutation.
	Mutated(policy, binding, errorType string, took time.Duration)
}

type noMetrics struct{}

func (noMetrics) Checked(string, string, string, string, time.Duration) {}
func (noMetrics) Mutated(string, string, string, time.Duration)         {}

// Policies are those of a cluster.
type Policies struct {
	o                    Options
	params               params
	mutating, validating *concern.Finder[*policy]
}

// New makes the plugins. Close lets go of what they follow.
func New(o Options) *Policies {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	cluster := &attributes.Cluster{Registry: o.Registry, Shared: o.Shared}
	find := func(plugin string, kinds ...string) *concern.Finder[*policy] {
		return concern.NewFinder(concern.Options[*policy]{Cluster: cluster, Compile: (&compiler{}).compile, Static: o.Static[plugin], Kinds: kinds})
	}
	return &Policies{
		o: o, params: params{registry: o.Registry, shared: o.Shared},
		mutating:   find(mutatingName, "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
		validating: find(validatingName, "validatingadmissionpolicies", "validatingadmissionpolicybindings"),
	}
}

// Close lets go of the policies.
func (p *Policies) Close() {
	p.mutating.Close()
	p.validating.Close()
}

const (
	mutatingName   = "MutatingAdmissionPolicy"
	validatingName = "ValidatingAdmissionPolicy"
)

// Mutating is the plugin MutatingAdmissionPolicy.
func (p *Policies) Mutating() registry.Admission {
	return registry.Admission{Name: mutatingName, Mutate: p.mutate}
}

// Validating is the plugin ValidatingAdmissionPolicy.
func (p *Policies) Validating() registry.Admission {
	return registry.Admission{Name: validatingName, Validate: p.validate}
}

// about tells whether a policy is about a request, and by which resource it knows it.
func about(r *attributes.Request, c match.Candidate[*policy]) (as schema.GroupVersionResource, ok bool, err error) {
	return within(r, &c.Of.scope.selectors, c.Covered, c.Excluded)
}

func within(r *attributes.Request, s *match.Selectors, covered, excluded []match.Covered) (as schema.GroupVersionResource, ok bool, err error) {
	if _, out := match.Named(excluded, r.Named); out {
		return as, false, nil
	}
	found, ok := match.Named(covered, r.Named)
	if !ok {
		return as, false, nil
	}
	ok, err = s.Match(r)
	return found.As, ok, err
}

// binds tells whether a binding is about a request.
func (p *Policies) binds(r *attributes.Request, b *binding) (bool, error) {
	if b.scope == nil {
		return true, nil
	}
	place := r.Place()
	covered, excluded := b.scope.rules.Cover(&place, match.Equivalents(p.o.Registry.Catalogue, r.Kind))
	_, ok, err := within(r, &b.scope.selectors, covered, excluded)
	return ok, err
}

// forbidden is a refusal whose words are those of a policy.
func forbidden(r *attributes.Request, words string) *apierrors.StatusError {
	name := r.Named
	if name == "" && r.Object != nil {
		name = r.Object.GetGenerateName()
	}
	if name == "" {
		name = "Unknown"
	}
	return apierrors.NewForbidden(r.Resource.GroupResource(), name, errors.New(words))
}

// misconfigured is an error of the policy or of a binding itself.
func misconfigured(b *binding, err error) error {
	if b == nil {
		return fmt.Errorf("failed to configure policy: %w", err)
	}
	return fmt.Errorf("failed to configure binding: %w", err)
}
