package loop

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/informer"
)

func TestLoopsUseTheUserAgentsOfTheirPrograms(t *testing.T) {
	agents := make(chan string, 4)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agents <- r.UserAgent()
		http.NotFound(w, r)
	}))
	defer server.Close()
	clients, err := NewClients(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	scheduler := clients.As("kube-scheduler")
	if scheduler.Informers != clients.Informers || scheduler.Events != clients.Events {
		t.Error("they do not share")
	}
	if Informer(scheduler, informer.For(scheduler.Kube.CoreV1().Pods(""))) != Informer(clients, informer.For(clients.Kube.CoreV1().Pods(""))) {
		t.Error("there is an informer for each name")
	}
	for _, c := range []struct {
		clients *Clients
		program string
	}{{clients, "loop.test/"}, {scheduler, "kube-scheduler/"}, {scheduler.Named("default"), "kube-scheduler/"}} {
		_, _ = c.clients.Kube.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		if agent := <-agents; !strings.HasPrefix(agent, c.program) {
			t.Errorf("%s instead of %s", agent, c.program)
		}
	}
	if given := ClientsFor(fake.NewClientset()); given.As("kubelet") != given {
		t.Error("clients that were given have changed")
	}
}
