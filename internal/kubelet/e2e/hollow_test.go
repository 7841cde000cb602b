//go:build linux

package e2e

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/millrace/millrace/internal/kubelet/hollow"
	"github.com/millrace/millrace/internal/kubelet/server"
	"github.com/millrace/millrace/loop"
)

func TestHollowNodesAnswerTheAPIServer(t *testing.T) {
	subject := pod(corev1.Container{Name: "main", Image: image})
	subject.UID, subject.Spec.NodeName = "u", "hollow-0"
	subject.Annotations = map[string]string{hollow.Prefix + "log": "one\ntwo"}
	kube := fake.NewClientset(subject)
	clients := loop.ClientsFor(kube)
	ca := newAuthority(t)
	n, err := hollow.New(hollow.Options{Clients: clients, Server: server.Access{Clients: ca.pool(), Names: []string{"api"}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx, clients, n) }()
	a := &alone{t: t, authority: ca}
	a.until("the node tells its port and the pod runs", func() bool {
		node, err := kube.CoreV1().Nodes().Get(ctx, "hollow-0", metav1.GetOptions{})
		if err != nil {
			return false
		}
		p, err := kube.CoreV1().Pods("default").Get(ctx, subject.Name, metav1.GetOptions{})
		a.url = "https://127.0.0.1:" + strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port))
		return err == nil && p.Status.Phase == corev1.PodRunning
	})
	a.caller = ca.config("api", a.url)
	if a.callerClient, err = rest.HTTPClientFor(a.caller); err != nil {
		t.Fatal(err)
	}
	path := "/containerLogs/default/subject/main"
	for query, want := range map[string]string{"": "one\ntwo\n", "?tailLines=1": "two\n", "?limitBytes=3": "one", "?sinceTime=" + url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339)): ""} {
		if status, got := a.get(a.callerClient, path+query); status != http.StatusOK || got != want {
			t.Errorf("%s is answered %d %q", query, status, got)
		}
	}
	for how, err := range a.execute("/exec/default/subject/main", []string{"sh"}, remotecommand.StreamOptions{Stdout: &bytes.Buffer{}}) {
		if err == nil || !strings.Contains(err.Error(), "hollow node") {
			t.Errorf("%s: exec is answered %v", how, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
