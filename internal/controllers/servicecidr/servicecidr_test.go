package servicecidr_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/servicecidr"
	"github.com/millrace/millrace/millracetest"
)

func cidr(name string, ranges ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: ranges}}
}

func address(ip string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{networkingv1.LabelManagedBy: "ipallocator.k8s.io", networkingv1.LabelIPAddressFamily: "IPv4"}},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "s"}},
	}
}

// ready returns status and reason of a range's Ready condition, or that the range is gone.
func ready(t *testing.T, s *looptest.Server, name string) string {
	t.Helper()
	synctest.Wait()
	c, err := s.Kube.NetworkingV1().ServiceCIDRs().Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "gone"
	}
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(c.Finalizers, "networking.k8s.io/service-cidr-finalizer") {
		return "without a finalizer"
	}
	condition := apimeta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if condition == nil {
		return "unknown"
	}
	return string(condition.Status) + " " + condition.Reason
}

func TestRangesAreReadyAndDeletedWhenNoAddressNeedsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		looptest.Start(t, s.Clients(), servicecidr.Entry)
		for _, c := range []*networkingv1.ServiceCIDR{cidr("alone", "192.168.0.0/24"), cidr("wide", "172.16.0.0/16"), cidr("narrow", "172.16.1.0/24")} {
			looptest.Create(s, "servicecidrs", "", c)
		}
		for _, ip := range []string{"192.168.0.7", "172.16.1.9"} {
			looptest.Create(s, "ipaddresses", "", address(ip))
		}
		time.Sleep(time.Second)
		expect := func(when, name, want string) {
			t.Helper()
			if got := ready(t, s, name); got != want {
				t.Errorf("%s %s is %q, expected %q", when, name, got, want)
			}
		}
		remove := func(name string) {
			t.Helper()
			if err := s.Kube.NetworkingV1().ServiceCIDRs().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		expect("at first", "alone", "True ")
		expect("at first", "narrow", "True ")
		remove("alone")
		time.Sleep(30 * time.Second)
		expect("with an address", "alone", "False Terminating")
		if err := s.Kube.NetworkingV1().IPAddresses().Delete(t.Context(), "192.168.0.7", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		expect("without it", "alone", "gone")
		remove("narrow")
		expect("within a wider one", "narrow", "True ")
		time.Sleep(10 * time.Second)
		expect("after a while", "narrow", "gone")
		remove("wide")
		time.Sleep(time.Minute)
		expect("the only one left", "wide", "False Terminating")
		looptest.Create(s, "servicecidrs", "", cidr("next", "172.16.0.0/16"))
		time.Sleep(time.Minute)
		expect("beside another like it", "wide", "gone")
	})
}

func TestARangeStaysWhileOnlyTheCacheShowsNoAddressInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		looptest.Start(t, s.Clients(), servicecidr.Entry)
		looptest.Create(s, "servicecidrs", "", cidr("alone", "192.168.0.0/24"))
		time.Sleep(time.Second)
		s.HoldWatchesOf("ipaddresses")
		looptest.Create(s, "ipaddresses", "", address("192.168.0.7"))
		if err := s.Kube.NetworkingV1().ServiceCIDRs().Delete(t.Context(), "alone", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := ready(t, s, "alone"); got != "True " {
			t.Errorf("while the cache is behind it is %q", got)
		}
		s.HoldWatchesOf("")
		time.Sleep(time.Minute)
		if got := ready(t, s, "alone"); got != "False Terminating" {
			t.Errorf("then it is %q", got)
		}
	})
}
