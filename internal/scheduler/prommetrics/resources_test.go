package prommetrics_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
	"github.com/millrace/millrace/internal/scheduler/prommetrics"
)

func TestRequestsAndLimitsOfPodsAreToldInTheirUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := func(name string, phase corev1.PodPhase) *corev1.Pod {
			priority := int32(7)
			return &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
				Spec: corev1.PodSpec{NodeName: "n", SchedulerName: "mine", Priority: &priority, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("150m"), corev1.ResourceMemory: resource.MustParse("1Ki"), "example.com/gpu": resource.MustParse("2"),
						corev1.ResourceEphemeralStorage: resource.MustParse("0"),
					},
					Limits: corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")},
				}}}},
				Status: corev1.PodStatus{Phase: phase},
			}
		}
		pods := informer.New(informertest.NewSource(pod("runs", corev1.PodRunning), pod("ended", corev1.PodFailed)), informer.Options[*corev1.Pod]{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = pods.Run(ctx) // it ends with the test
		}()
		if err := pods.Synced(ctx); err != nil {
			t.Fatal(err)
		}
		families, err := prommetrics.Resources(pods).Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range families {
			for _, m := range f.Metric {
				var labels []string
				for _, l := range m.Label {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
				got = append(got, fmt.Sprint(f.GetName(), " ", strings.Join(labels, " "), " ", m.GetGauge().GetValue()))
			}
		}
		var want []string
		for _, w := range []string{"limit hugepages-2Mi bytes 4.194304e+06", "request cpu cores 0.15", "request example.com/gpu integer 2", "request memory bytes 1024"} {
			words := strings.Fields(w)
			want = append(want, fmt.Sprintf("kube_pod_resource_%s namespace=default node=n pod=runs priority=7 resource=%s scheduler=mine unit=%s %s", words[0], words[1], words[2], words[3]))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		cancel()
		<-ended
	})
}
