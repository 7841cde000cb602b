package web

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/server/actions"
	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/audit"
	"github.com/millrace/millrace/internal/server/connections"
	"github.com/millrace/millrace/internal/server/fairness"
	"github.com/millrace/millrace/internal/server/h2"
	"github.com/millrace/millrace/internal/server/metrics"
	"github.com/millrace/millrace/internal/server/openapi"
	"github.com/millrace/millrace/internal/server/outward"
	"github.com/millrace/millrace/internal/server/past"
	"github.com/millrace/millrace/internal/server/resource"
)

const (
	// The limits of requests that are served at the same time, and how long each may take, if the options do not say.
	usualReads, usualChanges = 400, 200
	usualTimeout             = time.Minute
	// A request may wait in a fairness queue for at most a quarter of its timeout.
	shareOfTimeout = 4
)

// api returns the request handler.
func (w *Web) api(ctx context.Context, streams *connections.Connections, l *assembly.List) (api *apiserver.Server, err error) {
	measured := metrics.New(metrics.Options{
		Registry: w.o.Metrics, Cache: w.storage.Cache, Version: w.o.Version, InFlight: func() (int, int) { return api.InFlight() },
	})
	w.o.Metrics.MustRegister(w.told()...)
	turns, err := w.divide(ctx, l)
	if err != nil {
		return nil, err
	}
	documents, err := w.documents(measured, turns, l)
	if err != nil {
		return nil, err
	}
	log, err := w.openAudit(l)
	if err != nil {
		return nil, err
	}
	before := past.New(past.Options{
		Store: w.storage.Registry.Store, Kinds: w.storage.Kinds, Webhooks: w.extensions.Webhooks(),
		RequestTimeout: w.o.RequestTimeout, MinRequestTimeout: w.o.MinRequestTimeout, BookmarkPeriod: w.o.BookmarkPeriod,
		Version: w.o.Version, Address: w.address.External(), Logger: w.o.Logger,
	})
	l.Opened("past", func() error { before.Close(); return nil })
	o := apiserver.Options{
		Past:         before,
		Audit:        log,
		Registry:     w.storage.Registry,
		Authenticate: w.access.Authenticate,
		Authorize:    w.access.Permissions,
		Fairness:     turns,
		Queued:       h2.Queued,
		Apply:        w.storage.Owners,
		Connections:  streams.All(),
		Actions:      actions.All(actions.Options{Authorize: w.access.Permissions, Tokens: w.access.Tokens, Issue: w.access.Issuer}),
		Live:         map[string]apiserver.Live{"componentstatuses": w.components()},
		Checks:       w.checks(),
		Extra:        documents,
		Delegate:     w.extensions.Aggregator,
		CatchUp:      w.extensions.Definitions.CatchUp,
		Settle:       w.extensions.Definitions.Settle,
		Unreadable:   w.extensions.Definitions.Unreadable,
		Metrics:      measured.Requests(),
		Version:      w.o.Version,
		Address:      w.address.External(),
		NoProfiling:  w.o.NoProfiling,
		Privileged:   w.o.Privileged,
		Logger:       w.o.Logger,
		MaxInFlight:  w.o.MaxInFlight, MaxMutatingInFlight: w.o.MaxMutatingInFlight,
		RequestTimeout: w.o.RequestTimeout, MinRequestTimeout: w.o.MinRequestTimeout, BookmarkPeriod: w.o.BookmarkPeriod,
	}
	if roles := w.access.Permissions.Roles(); roles != nil {
		o.Reach = roles
	}
	if w.address.Alone() && o.BookmarkPeriod == 0 {
		o.BookmarkPeriod = time.Hour // connections do not fail here, and watches end with a bookmark
	}
	return apiserver.New(o), nil
}

// divide starts API Priority and Fairness; it is nil if requests are only limited by number.
func (w *Web) divide(ctx context.Context, l *assembly.List) (*fairness.Dispatcher, error) {
	if w.o.NoFairness {
		return nil, nil
	}
	d := fairness.New(fairness.Options{
		Registry: w.storage.Registry, Logger: w.o.Logger,
		Seats:     Seats(w.o.MaxInFlight, w.o.MaxMutatingInFlight),
		QueueWait: or(w.o.RequestTimeout, usualTimeout) / shareOfTimeout,
	})
	if err := d.Prepare(ctx); errors.Is(err, fairness.ErrNoKinds) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	w.o.Metrics.MustRegister(d)
	l.Run("fairness", d.Run)
	return d, nil
}

// Seats is how many requests may be served at the same time with limits for those that read and those that change. Zero
// means the default.
func Seats(reads, changes int) int { return or(reads, usualReads) + or(changes, usualChanges) }

// or returns v, or otherwise if v is zero or less.
func or[T int | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// documents returns the handlers for paths that are not resources.
func (w *Web) documents(measured *metrics.Metrics, turns *fairness.Dispatcher, l *assembly.List) (map[string]http.Handler, error) {
	definitions, aggregator := w.extensions.Definitions, w.extensions.Aggregator
	documents := openapi.New(openapi.Options{
		Catalogue: w.storage.Registry.Catalogue, Version: w.o.Version.GitVersion,
		Others: aggregator.Documents, Other: aggregator.Document,
		Foreign: func(ctx context.Context) (all []openapi.Foreign) {
			for _, d := range aggregator.Descriptions(ctx) {
				all = append(all, openapi.Foreign(d))
			}
			return all
		},
		Settle: definitions.Settle,
		Schema: func(f *resource.Face) *openapi.Schema { return openapi.FromDefinition(definitions.Schema(f)) },
	})
	l.Opened("openapi", func() error { documents.Close(); return nil })
	all := documents.Handlers()
	published, err := w.access.Issuer.Documents(w.address.Keys())
	if err != nil {
		return nil, err
	}
	maps.Copy(all, published)
	maps.Copy(all, w.pages(time.Now()))
	all["/metrics"] = measured.Handler()
	if turns != nil {
		maps.Copy(all, turns.Handlers())
	}
	return all, nil
}

// openAudit opens the audit log, if there is one.
func (w *Web) openAudit(l *assembly.List) (*audit.Log, error) {
	o := w.o.Audit
	if o.Policy == nil {
		w.o.Metrics.MustRegister(noAudit()...)
		return nil, nil
	}
	o.Logger = w.o.Logger
	log, err := audit.Open(o)
	if err != nil {
		return nil, err
	}
	l.Opened("audit log", log.Close)
	l.Run("audit", log.Run)
	w.o.Metrics.MustRegister(log)
	return log, nil
}

// connections returns the transport to kubelets and to what runs on nodes.
func (w *Web) connections() (*connections.Connections, error) {
	k := w.o.Kubelets
	authorities, err := w.access.KubeletAuthorities()
	if err != nil {
		return nil, err
	}
	o := connections.Options{
		Registry: w.storage.Registry, Timeout: k.Timeout, Own: w.address.Owns, Certificate: w.access.Kubelets, Authorities: authorities, Logger: w.o.Logger,
	}
	if w.o.Inward {
		o.Dial = outward.Refuse
	}
	for _, kind := range k.AddressTypes {
		o.AddressTypes = append(o.AddressTypes, corev1.NodeAddressType(kind))
	}
	return connections.New(o), nil
}
