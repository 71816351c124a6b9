// A kfake cluster of one broker, on a port of loopback.
package main

import (
	"log"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if _, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port)); err != nil {
		log.Fatal(err)
	}
	select {}
}
