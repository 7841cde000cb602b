package credentials_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/kubelet/credentials"
)

func TestATokenIsEnoughToVerifyTheCluster(t *testing.T) {
	cluster, kube := start(t)
	token(t, kube, nil)
	until(t, informer.For(kube.CoreV1().ConfigMaps("kube-public")), "cluster-info", func(cm *corev1.ConfigMap) bool { return cm.Data["jws-kubeconfig-"+id] != "" })
	config, err := credentials.Discover(t.Context(), cluster.URL(), id+"."+secret)
	if err != nil {
		t.Fatal(err)
	}
	joiner, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := joiner.Discovery().ServerVersion(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for name, wrong := range map[string]string{"another secret": id + ".fedcba9876543210", "another token": "zzzzzz." + secret} {
		if _, err := credentials.Discover(ctx, cluster.URL(), wrong); !errors.Is(err, credentials.ErrNotSigned) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
