package legacytoken

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const (
	cleanerName = "legacy-serviceaccount-token-cleaner-controller"
	// every is how often the cleaner looks at the secrets.
	every = 24 * time.Hour
	year  = 365 * 24 * time.Hour
	// lastUsed and invalidSince are labels with days, which the API server writes and reads.
	lastUsed     = "kubernetes.io/legacy-token-last-used"
	invalidSince = "kubernetes.io/legacy-token-invalid-since"
	// tracking is the config map in kube-system in which the API server says since when it writes the label.
	tracking = "kube-apiserver-legacy-service-account-token-tracking"
)

// Cleaning configures the cleaner.
type Cleaning struct {
	// Period is how long a token must not have been used: a year by default.
	Period time.Duration
}

// Entry is this loop among the others.
func (cl Cleaning) Entry() loop.Entry {
	cl.Period = cmp.Or(cl.Period, year)
	return loop.Entry{Name: cleanerName, Aliases: []string{"legacy-service-account-token-cleaner"}, New: cl.new}
}

type cleaner struct {
	period   time.Duration
	kube     kubernetes.Interface
	log      *slog.Logger
	now      func() time.Time
	secrets  *informer.Shared[*corev1.Secret]
	accounts *informer.Shared[*corev1.ServiceAccount]
	pods     *informer.Shared[*podview.Pod]
}

func (cl Cleaning) new(c *loop.Clients) (loop.Runner, error) {
	l := &cleaner{
		period: cl.Period, kube: c.Kube, log: c.Log, now: c.Now,
		secrets:  secretsOf(c),
		accounts: loop.Informer(c, informer.For(c.Kube.CoreV1().ServiceAccounts(""))),
		pods:     podview.Informer(c),
	}
	return loop.Func(func(ctx context.Context) error {
		for _, cache := range []loop.Cache{l.secrets, l.accounts, l.pods} {
			if err := cache.Synced(ctx); err != nil {
				return nil // the only error is the end of ctx
			}
		}
		return loop.Every(every, func(ctx context.Context) error {
			if err := l.clean(ctx); err != nil {
				l.log.WarnContext(ctx, "unused tokens of service accounts are not removed", "err", err)
			}
			return nil
		}).Run(ctx)
	}), nil
}

// clean invalidates and deletes what was unused for long.
func (l *cleaner) clean(ctx context.Context) error {
	now := l.now().UTC()
	since, err := l.trackedSince(ctx)
	if err != nil || now.Before(since.Add(l.period)) {
		return err
	}
	before := now.Add(-l.period)
	for s := range l.secrets.List() {
		if !l.unused(s, before) {
			continue
		}
		if err := l.retire(ctx, s, now, before); err != nil {
			l.log.WarnContext(ctx, "unused token of a service account is not removed", "key", informer.KeyOf(s).String(), "err", err)
		}
	}
	return ctx.Err()
}

// trackedSince returns from when on each use was recorded: the day after the API server began.
func (l *cleaner) trackedSince(ctx context.Context) (time.Time, error) {
	m, err := l.kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, tracking, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("read since when uses are recorded: %w", err)
	}
	day, err := time.Parse(time.DateOnly, m.Data["since"])
	if err != nil {
		return time.Time{}, fmt.Errorf("config map %s/%s: %w", m.Namespace, m.Name, err)
	}
	return day.AddDate(0, 0, 1), nil
}

// unused reports whether a secret was made by Kubernetes, and has not been used since a time.
func (l *cleaner) unused(s *corev1.Secret, since time.Time) bool {
	if s.Type != corev1.SecretTypeServiceAccountToken || s.DeletionTimestamp != nil || !s.CreationTimestamp.Time.Before(since) {
		return false
	}
	if day, ok := s.Labels[lastUsed]; ok {
		if _, err := time.Parse(time.DateOnly, day); err != nil || day >= since.Format(time.DateOnly) {
			return false
		}
	}
	a := accountOf(l.accounts, s)
	if a == nil || !slices.ContainsFunc(a.Secrets, func(r corev1.ObjectReference) bool { return r.Name == s.Name }) {
		return false // made by hand
	}
	for pod := range l.pods.ListNamespace(s.Namespace) {
		if slices.Contains(pod.Secrets, s.Name) {
			return false
		}
	}
	return true
}

// retire marks an unused secret as invalid or, if it was invalid for the whole period, deletes it.
func (l *cleaner) retire(ctx context.Context, s *corev1.Secret, now, before time.Time) error {
	day := s.Labels[invalidSince]
	if _, err := time.Parse(time.DateOnly, day); err != nil {
		return l.invalidate(ctx, s, now.Format(time.DateOnly))
	}
	if day >= before.Format(time.DateOnly) {
		return nil
	}
	l.log.InfoContext(ctx, "unused token of a service account is deleted", "key", informer.KeyOf(s).String(), "invalidSince", day)
	err := l.kube.CoreV1().Secrets(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &s.ResourceVersion}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // changed or used in the meantime: tomorrow is another day
	}
	return err
}

func (l *cleaner) invalidate(ctx context.Context, s *corev1.Secret, day string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.UID, "labels": map[string]string{invalidSince: day}}})
	if err != nil {
		return err
	}
	l.log.InfoContext(ctx, "unused token of a service account is marked as invalid", "key", informer.KeyOf(s).String())
	_, err = l.kube.CoreV1().Secrets(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
