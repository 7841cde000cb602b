package millrace

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/server/apiserver"
	"github.com/millrace/millrace/server/registry"
)

// The programs of kube-scheduler and kube-controller-manager answer here if they run on this machine.
const (
	schedulerHealth   = "https://127.0.0.1:10259/healthz"
	controllersHealth = "https://127.0.0.1:10257/healthz"
	healthTimeout     = 5 * time.Second
)

// components tells how the other components are, as `kubectl get componentstatuses` shows it. Those of this process are well as long as it runs: if one
// of them fails, the process ends.
func (c *Cluster) components(reg *registry.Registry) apiserver.Live {
	store := storeAnswers(reg)
	inside := func(context.Context) (string, error) { return "ok", nil }
	all := []struct {
		name  string
		check func(context.Context) (message string, err error)
	}{
		{"scheduler", inside},
		{"controller-manager", inside},
		{"etcd-0", func(ctx context.Context) (string, error) { return "ok", store(ctx) }},
	}
	if c.options.NoScheduler {
		all[0].check = func(ctx context.Context) (string, error) { return askHealth(ctx, schedulerHealth) }
	}
	if len(c.options.Controllers) == 0 {
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
