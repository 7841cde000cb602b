package allocation_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/faults"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

// A change of a service is stored, and its answer is lost: what the service has must not be given to another one.
func TestNothingIsGivenOutTwiceAfterALostAnswer(t *testing.T) {
	for name, change := range map[string]func(*server) error{
		"to a create": func(w *server) error {
			_, err := w.tryCreate(service("first", ofType(corev1.ServiceTypeNodePort)), registry.WriteOptions{})
			return err
		},
		"to an update": func(w *server) error {
			_, err := w.tryUpdate("changed", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := faults.Wrap(newStore(t))
			w := newServer(t, s, v4)
			w.create(service("changed"))
			s.Inject(faults.Rule{Ops: faults.Create | faults.Update, Prefix: "/registry/services/specs/", Err: store.ErrUnavailable, Done: true, Times: 1})
			if err := change(w); err == nil {
				t.Fatal("the answer was not lost")
			}
			had := w.stored(t)
			if w.claims()[had.Spec.ClusterIP] != had.Name || !w.taken(had.Spec.Ports[0].NodePort) {
				t.Errorf("the claims are %v, and the port is taken: %v", w.claims(), w.taken(had.Spec.Ports[0].NodePort))
			}
			for what, same := range map[string]func(*corev1.ServiceSpec){
				"address": func(s *corev1.ServiceSpec) { s.ClusterIP = had.Spec.ClusterIP },
				"port": func(s *corev1.ServiceSpec) {
					s.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, had.Spec.Ports[0].NodePort
				},
			} {
				if _, err := w.tryCreate(service("second", same), registry.WriteOptions{}); err == nil {
					t.Errorf("the %s of %s is given to another service", what, had.Name)
				}
			}
		})
	}
}

func TestAHeldLogGivesNothingOutTwice(t *testing.T) {
	s := newStore(t)
	log := storetest.NewLateLog(s)
	const narrow = "10.0.0.0/29" // six addresses
	w, other := newServer(t, log, narrow), newServer(t, s, narrow)
	t.Cleanup(log.Hold())
	addresses, ports := map[string]bool{}, map[int32]bool{}
	for i := range 3 {
		for by, w := range map[string]*server{"held": w, "other": other} {
			svc := w.create(service(fmt.Sprint(by, i), ofType(corev1.ServiceTypeNodePort)))
			addresses[svc.Spec.ClusterIP], ports[svc.Spec.Ports[0].NodePort] = true, true
		}
	}
	if len(addresses) != 6 || len(ports) != 6 {
		t.Errorf("six services have the addresses %v and the ports %v", addresses, ports)
	}
}

// A service that was refused by the store gives back what it had got.
func TestWhatTheStoreRefusesIsReleased(t *testing.T) {
	s := faults.Wrap(newStore(t))
	w := newServer(t, s, v4)
	s.Inject(faults.Rule{Ops: faults.Create, Prefix: "/registry/services/specs/", Err: store.ErrNoSpace, Times: 1})
	if _, err := w.tryCreate(service("refused", ofType(corev1.ServiceTypeNodePort)), registry.WriteOptions{}); err == nil {
		t.Fatal("it was not refused")
	}
	if got := w.claims(); len(got) != 0 {
		t.Errorf("still claimed: %v", got)
	}
}

// stored is the service in the store that has a node port.
func (se *server) stored(t *testing.T) *corev1.Service {
	t.Helper()
	s := se.storage(services)
	list, err := s.List(context.Background(), registry.ListQuery{Freshness: registry.Freshness{Stored: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Objects {
		d, err := s.Kind().Decode(t.Context(), o.Value(), o.Revision.String())
		if err != nil {
			t.Fatal(err)
		}
		if svc := d.(*corev1.Service); svc.Spec.Type == corev1.ServiceTypeNodePort {
			return svc
		}
	}
	t.Fatal("no service with a node port is stored")
	return nil
}
