package webhooks

import (
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/admission/attributes"
	"github.com/millrace/millrace/internal/server/admission/concern"
	"github.com/millrace/millrace/internal/server/admission/expression"
	"github.com/millrace/millrace/internal/server/admission/match"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/webhook"
)

// Options say what the plugins stand on. Registry and Client are required.
type Options struct {
	Registry *registry.Registry
	Client   *webhook.Client
	// Authorize answers the match conditions that ask about permissions.
	Authorize auth.Authorizer
	// Static are configurations that are not in the API, by the names of the plugins.
	Static map[string]concern.Static
	// Credentials are with which webhooks are called, by the names of the plugins.
	Credentials map[string]*webhook.Credentials
	// Shared says that other servers write to the store.
	Shared  bool
	Metrics Metrics
	Logger  *slog.Logger
}

// Webhooks are those of a cluster.
type Webhooks struct {
	o                    Options
	mutating, validating *concern.Finder[*hook]
}

// New makes the plugins. Close lets go of what they follow.
func New(o Options) *Webhooks {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	cluster := &attributes.Cluster{Registry: o.Registry, Shared: o.Shared}
	find := func(plugin, kind string) *concern.Finder[*hook] {
		return concern.NewFinder(concern.Options[*hook]{Cluster: cluster, Compile: compile, Static: o.Static[plugin], Kinds: []string{kind}})
	}
	return &Webhooks{
		o:          o,
		mutating:   find(mutatingName, "mutatingwebhookconfigurations"),
		validating: find(validatingName, "validatingwebhookconfigurations"),
	}
}

// Close lets go of the configurations.
func (w *Webhooks) Close() {
	w.mutating.Close()
	w.validating.Close()
}

const (
	mutatingName   = "MutatingAdmissionWebhook"
	validatingName = "ValidatingAdmissionWebhook"
	// These are how metrics tell the two.
	mutatingStep, validatingStep = "admit", "validating"
)

// Mutating is the plugin MutatingAdmissionWebhook.
func (w *Webhooks) Mutating() registry.Admission {
	return registry.Admission{Name: mutatingName, Mutate: w.mutate}
}

// Validating is the plugin ValidatingAdmissionWebhook.
func (w *Webhooks) Validating() registry.Admission {
	return registry.Admission{Name: validatingName, Validate: w.validate}
}

// concerns finds out whether a webhook is to be called, and with which version of the objects.
func (w *Webhooks) concerns(r *attributes.Request, c match.Candidate[*hook], step string) (*attributes.Version, error) {
	h := c.Of
	selected, err := h.selectors.Match(r)
	switch {
	case !selected:
		return nil, nil
	case apierrors.IsNotFound(err):
		return nil, err
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	}
	v, err := r.Version(c.Covered[0].As)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if len(h.conditions) == 0 {
		return v, nil
	}
	holds, err := w.hold(v, h, step)
	if err != nil && !h.ignores {
		return nil, apierrors.NewForbidden(r.Resource.GroupResource(), r.Named, err)
	}
	if err != nil || !holds {
		return nil, nil
	}
	return v, nil
}

// hold tells whether the match conditions of a webhook hold.
func (w *Webhooks) hold(v *attributes.Version, h *hook, step string) (bool, error) {
	a, err := expression.Activate(v.Context(), nil, expression.Input{Version: v, Authorize: w.o.Authorize})
	if err != nil {
		return false, err
	}
	holds, failed, err := a.Hold(h.conditions)
	for range failed {
		w.o.Metrics.ConditionFailed(h.name, step, string(v.Operation))
	}
	if !holds && err == nil {
		w.o.Metrics.Excluded(h.name, step, string(v.Operation))
	}
	return holds, err
}
