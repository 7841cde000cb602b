package bootstrap

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/server/registry"
)

// TrackingName is the config map in kube-system that says since when the use of tokens in secrets is noted. The loop that takes such tokens
// away needs to know.
const TrackingName = "kube-apiserver-legacy-service-account-token-tracking"

// Tracking keeps that config map.
type Tracking struct {
	Registry *registry.Registry
	Logger   *slog.Logger
}

// Run looks after the config map until the context ends.
func (t *Tracking) Run(ctx context.Context) error {
	return repeat(ctx, t.Ensure, func(err error) { t.Logger.Warn("the tracking of tokens could not be noted", "error", err) })
}

// Ensure writes the present day, unless a day is there.
func (t *Tracking) Ensure(ctx context.Context) error {
	return keepConfigMap(ctx, t.Registry, TrackingName, func(o *corev1.ConfigMap) {
		if _, err := time.Parse(time.DateOnly, o.Data["since"]); err != nil {
			o.Data["since"] = time.Now().UTC().Format(time.DateOnly)
		}
	})
}
