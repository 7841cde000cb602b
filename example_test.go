package millrace_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"
)

func ExampleStart() {
	ctx := context.Background()
	cluster, err := millrace.Start(ctx, millrace.Options{}) // in memory, without nodes
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	kube, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	shop, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(shop.Name, "is", shop.Status.Phase)
	// Output: shop is Active
}
