package bootstrap

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/registry"
)

// TrackingName is the config map in kube-system that says since when the use of tokens in secrets is recorded. The
// controller that removes unused tokens needs that date.
const TrackingName = "kube-apiserver-legacy-service-account-token-tracking"

// Tracking maintains that config map.
type Tracking struct {
	Registry *registry.Registry
	Logger   *slog.Logger
	// Every is how often the config map is checked: a minute by default.
	Every time.Duration
}

// Run maintains the config map until the context ends.
func (t *Tracking) Run(ctx context.Context) error {
	return repeat(ctx, cmp.Or(t.Every, checkInterval), t.Ensure, func(err error) {
		t.Logger.Warn("the config map for tracking tokens could not be written", "error", err)
	})
}

// Ensure writes the current day, unless the config map has one.
func (t *Tracking) Ensure(ctx context.Context) error {
	return keepConfigMap(ctx, t.Registry, TrackingName, func(o *corev1.ConfigMap) {
		if _, err := time.Parse(time.DateOnly, o.Data["since"]); err != nil {
			o.Data["since"] = time.Now().UTC().Format(time.DateOnly)
		}
	})
}
