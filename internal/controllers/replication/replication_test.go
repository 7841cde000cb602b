package replication_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/replication"
	"github.com/millrace/millrace/millracetest"
)

func create(t *testing.T, server *looptest.Server, replicas int32) {
	t.Helper()
	labels := map[string]string{"app": "web"}
	_, err := server.Clients().Kube.CoreV1().ReplicationControllers("default").Create(t.Context(), &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ReplicationControllerSpec{
			Replicas: &replicas, Selector: labels,
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: looptest.Containers()}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func only(t *testing.T, server *looptest.Server) *corev1.ReplicationController {
	t.Helper()
	all := looptest.All[corev1.ReplicationController](server, "replicationcontrollers")
	if len(all) != 1 {
		t.Fatalf("%d replication controllers", len(all))
	}
	return all[0]
}

func settle() { time.Sleep(30 * time.Minute); synctest.Wait() }

func TestAReplicationControllerMaintainsItsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := looptest.New(t, millracetest.API(t))
		clients := server.Clients()
		looptest.Run(t, clients, append(looptest.Make(t, clients, replication.Entry), &looptest.Nodes{Server: server, Count: 3})...)
		create(t, server, 3)
		settle()
		for _, pod := range looptest.All[corev1.Pod](server, "pods") {
			ref := metav1.GetControllerOf(pod)
			if ref == nil || ref.Kind != "ReplicationController" || ref.APIVersion != "v1" || ref.Name != "web" || ref.UID != only(t, server).UID {
				t.Errorf("the pod's controller is %+v", ref)
			}
		}
		if s := only(t, server).Status; s.Replicas != 3 || s.AvailableReplicas != 3 || s.FullyLabeledReplicas != 3 {
			t.Errorf("status %+v", s)
		}
		looptest.Edit(server, "replicationcontrollers", "default", "web", func(rc *corev1.ReplicationController) { rc.Spec.Replicas = new(int32) })
		settle()
		if pods := looptest.All[corev1.Pod](server, "pods"); len(pods) != 0 {
			t.Errorf("%d pods are left", len(pods))
		}
		for _, event := range looptest.All[corev1.Event](server, "events") {
			if event.InvolvedObject.Kind != "ReplicationController" || event.InvolvedObject.APIVersion != "v1" || event.Source.Component != "replication-controller" {
				t.Errorf("an event of %s is about %+v", event.Source.Component, event.InvolvedObject)
			}
		}
	})
}

func TestAnUnchangedReplicationControllerIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := looptest.New(t, millracetest.API(t))
		clients := server.Clients()
		looptest.Run(t, clients, append(looptest.Make(t, clients, replication.Entry), &looptest.Nodes{Server: server, Count: 3})...)
		var open atomic.Bool
		server.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods") && !open.Load() {
				return fmt.Errorf("the quota is used up")
			}
			return nil
		}, nil)
		create(t, server, 2)
		settle()
		failed := only(t, server).Status.Conditions
		if len(failed) != 1 || failed[0].Type != corev1.ReplicationControllerReplicaFailure || failed[0].Reason != "FailedCreate" {
			t.Fatalf("conditions %+v", failed)
		}
		open.Store(true)
		settle()
		rested := only(t, server)
		if len(rested.Status.Conditions) != 0 {
			t.Errorf("conditions %+v", rested.Status.Conditions)
		}
		looptest.Edit(server, "replicationcontrollers", "default", "web", func(rc *corev1.ReplicationController) {
			rc.Annotations = map[string]string{"looked": "at"}
		})
		rested = only(t, server)
		settle()
		if now := only(t, server); now.ResourceVersion != rested.ResourceVersion {
			t.Errorf("it was written although nothing changed: %+v", now.Status)
		}
	})
}
