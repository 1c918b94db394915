// Prints how kwok's nodes and pods behave by default: it embeds that, and has no flag that says "the default".
package main

import (
	"fmt"
	"strings"

	node "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	pod "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

func main() {
	stages := []string{node.DefaultNodeInit, pod.DefaultPodReady, pod.DefaultPodDelete}
	fmt.Println(strings.Join(stages, "\n---\n"))
}
