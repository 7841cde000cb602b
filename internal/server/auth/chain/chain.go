package chain

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/reload"
	"github.com/millrace/millrace/internal/server/auth/webhook"
)

// Options say who is asked: one of File and Configuration.
type Options struct {
	// File is an AuthorizationConfiguration, which is followed.
	File          string
	Configuration *Configuration
	// Webhook is the one that a Configuration means which says nothing of its webhook.
	Webhook webhook.AuthorizerOptions
	// Own makes the authorizer of a type that is no webhook. It is called once for each type that the first
	// configuration has.
	Own func(kind string) (auth.Authorizer, error)
	// ServerID names the API server in metrics.
	ServerID string
	Logger   *slog.Logger
}

// Chain asks authorizers in order. It is an auth.Authorizer.
type Chain struct {
	o         Options
	own       map[string]auth.Authorizer // by type; it does not change
	reloads   *reload.Metrics
	decisions *prometheus.CounterVec
	webhooks  *webhook.Metrics
	current   atomic.Pointer[auth.Union]
	read      string // the file as it was read last; Run's alone
}

// New makes the authorizers. Webhooks are not asked yet.
func New(o Options) (*Chain, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Chain{o: o, own: map[string]auth.Authorizer{}, reloads: reload.New("authorization", o.ServerID), webhooks: webhook.NewMetrics(),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_authorization_decisions_total",
			Help: "Total number of terminal decisions made by an authorizer split by authorizer type, name, and decision.",
		}, []string{"type", "name", "decision"})}
	first := o.Configuration
	if o.File != "" {
		text, err := os.ReadFile(o.File)
		if err != nil {
			return nil, err
		}
		if first, err = load(text); err != nil {
			return nil, fmt.Errorf("%s: %w", o.File, err)
		}
		c.read = string(text)
		c.reloads.Using(text)
	}
	for _, a := range first.Authorizers {
		if a.Type == Hook {
			continue
		}
		made, err := o.Own(a.Type)
		if err != nil {
			return nil, err
		}
		c.own[a.Type] = made
	}
	all, err := c.union(first)
	if err != nil {
		return nil, err
	}
	c.current.Store(&all)
	return c, nil
}

// load reads a configuration and validates it.
func load(text []byte, needed ...string) (*Configuration, error) {
	c, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("failed to load AuthorizationConfiguration from file: %w", err)
	}
	return c, Validate(c, needed...)
}

// union makes what asks the authorizers of a configuration.
func (c *Chain) union(of *Configuration) (auth.Union, error) {
	all := auth.Union{auth.MastersMay{}}
	for _, a := range of.Authorizers {
		one, err := c.authorizer(&a)
		if err != nil {
			return nil, err
		}
		count := func(decision string) prometheus.Counter { return c.decisions.WithLabelValues(a.Type, a.Name, decision) }
		all = append(all, &counted{one, count("allowed"), count("denied")})
	}
	return all, nil
}

func (c *Chain) authorizer(a *Authorizer) (auth.Authorizer, error) {
	if a.Type != Hook {
		if one, ok := c.own[a.Type]; ok {
			return one, nil
		}
		return nil, fmt.Errorf("authorizer type %s is not allowed if it was not enabled at initial server startup", a.Type)
	}
	w := a.Webhook
	if w == nil {
		o := c.o.Webhook
		o.Name, o.Metrics = a.Name, c.webhooks
		return webhook.NewAuthorizer(o)
	}
	conditions, errs := w.conditions(nil)
	if err := errs.ToAggregate(); err != nil {
		return nil, err
	}
	return webhook.NewAuthorizer(webhook.AuthorizerOptions{
		Name: a.Name, ConfigFile: *w.ConnectionInfo.KubeConfigFile, Version: w.SubjectAccessReviewVersion, Timeout: w.Timeout.Duration,
		KeepAllowed: keep(w.AuthorizedTTL, w.CacheAuthorizedRequests), KeepRefused: keep(w.UnauthorizedTTL, w.CacheUnauthorizedRequests),
		DenyOnError: w.FailurePolicy == failDeny, Conditions: conditions, Metrics: c.webhooks,
	})
}

// counted counts what an authorizer decides.
type counted struct {
	auth.Authorizer
	allowed, denied prometheus.Counter
}

// Authorize implements auth.Authorizer.
func (c *counted) Authorize(ctx context.Context, a auth.Attributes) auth.Verdict {
	v := c.Authorizer.Authorize(ctx, a)
	switch v.Decision {
	case auth.Allow:
		c.allowed.Inc()
	case auth.Deny:
		c.denied.Inc()
	}
	return v
}

// Authorize implements auth.Authorizer.
func (c *Chain) Authorize(ctx context.Context, a auth.Attributes) auth.Verdict {
	return c.current.Load().Authorize(ctx, a)
}

// Rules implements auth.Authorizer.
func (c *Chain) Rules(ctx context.Context, u auth.User, namespace string) auth.Rules {
	return c.current.Load().Rules(ctx, u, namespace)
}

// lookEvery is how often the file is read.
const lookEvery = 10 * time.Second

// Run follows the file until ctx ends.
func (c *Chain) Run(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(context.Context) { c.look() }, lookEvery)
	return ctx.Err()
}

// look uses the file if it has changed. What cannot be used is reported once.
func (c *Chain) look() {
	if c.o.File == "" {
		return
	}
	text, err := os.ReadFile(c.o.File)
	if err == nil && string(text) == c.read {
		return
	}
	var all auth.Union
	if err == nil {
		c.read = string(text)
		all, err = c.next(text)
	}
	if err != nil {
		c.reloads.Failed()
		c.o.Logger.Error("the changed authorization configuration cannot be used: the one before stays in use", "file", c.o.File, "error", err)
		return
	}
	c.current.Store(&all)
	c.reloads.Reloaded(text)
	c.o.Logger.Info("the authorization configuration was read again", "file", c.o.File)
}

func (c *Chain) next(text []byte) (auth.Union, error) {
	var needed []string
	for kind := range c.own {
		needed = append(needed, kind)
	}
	next, err := load(text, needed...)
	if err != nil {
		return nil, err
	}
	return c.union(next)
}

// Describe implements prometheus.Collector.
func (c *Chain) Describe(ch chan<- *prometheus.Desc) {
	c.reloads.Describe(ch)
	c.decisions.Describe(ch)
	c.webhooks.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *Chain) Collect(ch chan<- prometheus.Metric) {
	c.reloads.Collect(ch)
	c.decisions.Collect(ch)
	c.webhooks.Collect(ch)
}
