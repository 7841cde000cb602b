package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/custom"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// started are kube-apiserver's names for the parts of a start. It answers requests meanwhile, and has a check for each
// part. Here all of them have ended before the first request is answered, and an error ends the program. So these
// checks pass; they are for those who ask for one by its name.
var started = []string{
	"log",
	"poststarthook/start-apiserver-admission-initializer",
	"poststarthook/generic-apiserver-start-informers",
	"poststarthook/priority-and-fairness-config-consumer",
	"poststarthook/priority-and-fairness-filter",
	"poststarthook/start-apiextensions-informers",
	"poststarthook/start-apiextensions-controllers",
	"poststarthook/crd-informer-synced",
	"poststarthook/start-system-namespaces-controller",
	"poststarthook/start-cluster-authentication-info-controller",
	"poststarthook/start-kube-apiserver-identity-lease-controller",
	"poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
	"poststarthook/storage-readiness",
	"poststarthook/start-legacy-token-tracking-controller",
	"poststarthook/start-service-ip-repair-controllers",
	"poststarthook/rbac/bootstrap-roles",
	"poststarthook/scheduling/bootstrap-system-priority-classes",
	"poststarthook/priority-and-fairness-config-producer",
	"poststarthook/bootstrap-controller",
	"poststarthook/start-kubernetes-service-cidr-controller",
	"poststarthook/start-kube-aggregator-informers",
	"poststarthook/apiservice-status-local-available-controller",
	"poststarthook/apiservice-status-remote-available-controller",
	"poststarthook/apiservice-registration-controller",
	"poststarthook/apiservice-discovery-controller",
	"poststarthook/kube-apiserver-autoregistration",
	"autoregister-completion",
	"poststarthook/apiservice-openapi-controller",
	"poststarthook/apiservice-openapiv3-controller",
}

// storeAnswers checks whether the store answers.
func (w *Web) storeAnswers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := w.storage.Registry.Store.Revision(ctx)
	return err
}

// checks are the checks of /livez, /readyz and /healthz.
func (w *Web) checks() []apiserver.Check {
	follows := func(context.Context) error {
		if !w.storage.Cache.Ready() {
			return watchcache.ErrNotReady
		}
		return nil
	}
	all := []apiserver.Check{
		{Name: "etcd", Live: true, Do: w.storeAnswers},
		{Name: "etcd-readiness", ReadyOnly: true, Do: w.storeAnswers},
		{Name: "informer-sync", ReadyOnly: true, Do: follows},
		{Name: "storage-space", Do: func(context.Context) error { return w.storage.Registry.Store.Writable() }},
		{Name: "watch-cache", Do: follows},
		{Name: "stored-objects", ReadyOnly: true, Do: func(context.Context) error { return nil }, Notes: w.unreadable},
	}
	for _, name := range started {
		all = append(all, apiserver.Check{Name: name, Live: true, Do: func(context.Context) error { return nil }})
	}
	return append(all, apiserver.Check{Name: "shutdown", ReadyOnly: true, Quiet: true, Do: func(context.Context) error {
		if w.ending.Load() {
			return assembly.ErrClosing
		}
		return nil
	}})
}

// unreadable counts the stored objects that cannot be read, by kind. They do not make the server unready: all else is
// served. Their names are in the log: anybody may ask for the report.
func (w *Web) unreadable() (notes []string) {
	counts := map[string]int{}
	for _, k := range w.storage.Cache.Kinds() {
		if n := k.Stats().UnreadableNow; n > 0 {
			counts[k.Name()] = n
		}
	}
	if n := len(w.extensions.Definitions.Unreadable()); n > 0 {
		counts[custom.Resource.String()] = n
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		notes = append(notes, fmt.Sprintf("%d %s cannot be read: the log names them", counts[kind], kind))
	}
	return notes
}

// The programs of kube-scheduler and kube-controller-manager answer here if they run on this machine.
const (
	schedulerHealth   = "https://127.0.0.1:10259/healthz"
	controllersHealth = "https://127.0.0.1:10257/healthz"
	healthTimeout     = 5 * time.Second
)

// components tells how the other components are, as `kubectl get componentstatuses` shows it. Those of this process are
// well as long as it runs: if one of them fails, the process ends.
func (w *Web) components() apiserver.Live {
	inside := func(context.Context) (string, error) { return "ok", nil }
	all := []struct {
		name  string
		check func(context.Context) (message string, err error)
	}{
		{"scheduler", inside},
		{"controller-manager", inside},
		{"etcd-0", func(ctx context.Context) (string, error) { return "ok", w.storeAnswers(ctx) }},
	}
	if w.o.SchedulerElsewhere {
		all[0].check = func(ctx context.Context) (string, error) { return askHealth(ctx, schedulerHealth) }
	}
	if w.o.ControllersElsewhere {
		all[1].check = func(ctx context.Context) (string, error) { return askHealth(ctx, controllersHealth) }
	}
	return func(ctx context.Context) runtime.Object {
		list := &corev1.ComponentStatusList{}
		for _, component := range all {
			status := corev1.ComponentCondition{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue}
			var err error
			if status.Message, err = component.check(ctx); err != nil {
				status.Status, status.Message = corev1.ConditionFalse, err.Error()
			}
			list.Items = append(list.Items, corev1.ComponentStatus{
				ObjectMeta: metav1.ObjectMeta{Name: component.name}, Conditions: []corev1.ComponentCondition{status},
			})
		}
		return list
	}
}

// askHealth asks a program on this machine how it is. Its certificate is its own.
func askHealth(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("unhealthy http status code received: %d", answer.StatusCode)
	}
	return string(text), err
}
