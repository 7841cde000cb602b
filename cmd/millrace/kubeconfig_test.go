package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace"
)

func TestAKubeconfigOfAUserIsMadeWithTheClustersKeys(t *testing.T) {
	directory := t.TempDir()
	keys, out := filepath.Join(directory, "pki"), filepath.Join(directory, "alice.kubeconfig")
	cluster, err := millrace.Start(t.Context(), millrace.Options{Keys: keys, Controllers: []string{}, NoScheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	if err := cluster.WriteKubeconfig(filepath.Join(directory, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	if printed, err := execute(t, "kubeconfig", "--data", directory, "--user", "alice", "--group", "dev", "--group", "ops", "-o", out); err != nil || printed != "" {
		t.Fatalf("%s, %v", printed, err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the key: %v, %v", info.Mode(), err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", out)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	me, err := kube.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := me.Status.UserInfo.Username + " " + strings.Join(me.Status.UserInfo.Groups, " "); got != "alice dev ops system:authenticated" {
		t.Error(got)
	}
	for args, want := range map[string]string{
		"--data " + directory:                                                      "--user is needed",
		"--user a --valid-for 0s --data " + directory:                              "--valid-for 0s is not more than 0",
		"--user a --data " + filepath.Join(directory, "none"):                      "name it with --server",
		"--user a --server https://a --data " + filepath.Join(directory, "nobody"): "name the directory of a cluster with --data",
	} {
		if _, err := execute(t, append([]string{"kubeconfig"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
