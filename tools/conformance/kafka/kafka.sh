#!/usr/bin/env bash
# Apache Kafka from Maven: its command-line tools and, as the reference, its broker (KRaft, one node).
#
#   kafka.sh fetch                     copies the jars into the cache (once, about 130 MB)
#   kafka.sh TOOL [arguments]          topics get-offsets console-producer console-consumer dump-log
#                                      producer-perf-test configs broker-api-versions cluster
#                                      features metadata-quorum delete-records log-dirs verifiable-producer
#                                      e2e-latency transactions
#   kafka.sh serve --data-dir DIR --port N [--fsync] [--set key=value]...
#                                      formats DIR when it is new, then becomes the broker (foreground)
#
# Needs Java 17 and Maven. KAFKA_HEAP sets the broker's heap (1g), KAFKA_TOOL_HEAP a tool's (512m), KAFKA_GC the broker's
# collector and whatever else its JVM is to be told (G1 with pauses of 20 ms, as Kafka's own scripts have it).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${CORELOG_CACHE:-$HOME/.cache/corelog}/kafka

fail() { echo "kafka.sh: $*" >&2; exit 2; }

fetch() {
  # The stamp is the pom itself: another version there means another set of jars.
  if [ -d "$cache/jars" ] && cmp -s "$here/pom.xml" "$cache/pom.xml"; then return; fi
  command -v mvn >/dev/null || fail "mvn not found: install Maven and a Java 17 runtime"
  echo "kafka.sh: fetching Kafka's jars into $cache (once)" >&2
  rm -rf "$cache"
  mkdir -p "$cache/jars"
  mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$cache/jars" >&2
  cp "$here/pom.xml" "$cache/pom.xml"
}

logging() { # $1: level; prints the path of a log4j2 file that writes to stderr at that level
  local file=$cache/log4j2-$1.properties
  [ -f "$file" ] || printf '%s\n' "rootLogger.level = $1" 'rootLogger.appenderRef.err.ref = err' \
    'appender.err.type = Console' 'appender.err.name = err' 'appender.err.target = SYSTEM_ERR' \
    'appender.err.layout.type = PatternLayout' 'appender.err.layout.pattern = [%d] %p %m (%c)%n' >"$file"
  echo "$file"
}

jvm() { exec java -Dlog4j2.configurationFile="$1" -cp "$cache/jars/*" "${@:2}"; }

tool() { # $1: class below org.apache.kafka.tools; the rest are its arguments
  # One compiler tier and the serial collector: a tool lives for seconds, its start-up is most of that.
  jvm "$(logging WARN)" -Xmx"${KAFKA_TOOL_HEAP:-512m}" -XX:+UseSerialGC -XX:TieredStopAtLevel="${KAFKA_TOOL_TIER:-1}" \
    "org.apache.kafka.tools.$1" "${@:2}"
}

serve() {
  local dir='' port='' settings=()
  while [ $# -gt 0 ]; do
    case $1 in
      --data-dir) dir=$2; shift 2 ;;
      --port) port=$2; shift 2 ;;
      --set) settings+=("$2"); shift 2 ;;
      --fsync) settings+=(log.flush.interval.messages=1); shift ;;
      *) fail "serve: unknown option $1" ;;
    esac
  done
  [ -n "$dir" ] && [ -n "$port" ] || fail "serve: --data-dir and --port are needed"
  mkdir -p "$dir"
  local config=$dir/server.properties
  printf '%s\n' process.roles=broker,controller node.id=1 "controller.quorum.voters=1@127.0.0.1:$((port + 1))" \
    controller.listener.names=CONTROLLER "listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))" \
    "advertised.listeners=PLAINTEXT://127.0.0.1:$port" inter.broker.listener.name=PLAINTEXT \
    listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT "log.dirs=$dir/topics" \
    offsets.topic.replication.factor=1 group.initial.rebalance.delay.ms=0 "${settings[@]}" >"$config"
  if [ ! -f "$dir/topics/meta.properties" ]; then
    java -Dlog4j2.configurationFile="$(logging WARN)" -cp "$cache/jars/*" kafka.tools.StorageTool \
      format -t AAAAAAAAAAAAAAAAAAAAAQ -c "$config" >&2
  fi
  local heap=${KAFKA_HEAP:-1g} collector
  read -ra collector <<<"${KAFKA_GC:--XX:+UseG1GC -XX:MaxGCPauseMillis=20}"
  jvm "$(logging INFO)" -server -Xms"$heap" -Xmx"$heap" "${collector[@]}" kafka.Kafka "$config"
}

[ $# -gt 0 ] || fail "what? see the head of this file"
verb=$1
shift
fetch
case $verb in
  fetch) echo "$cache/jars" ;;
  serve) serve "$@" ;;
  topics) tool TopicCommand "$@" ;;
  get-offsets) tool GetOffsetShell "$@" ;;
  console-producer) tool ConsoleProducer "$@" ;;
  console-consumer) tool consumer.ConsoleConsumer "$@" ;;
  dump-log) tool DumpLogSegments "$@" ;;
  producer-perf-test) tool ProducerPerformance "$@" ;;
  configs) tool ConfigCommand "$@" ;;
  broker-api-versions) tool BrokerApiVersionsCommand "$@" ;;
  cluster) tool ClusterTool "$@" ;;
  features) tool FeatureCommand "$@" ;;
  metadata-quorum) tool MetadataQuorumCommand "$@" ;;
  delete-records) tool DeleteRecordsCommand "$@" ;;
  log-dirs) tool LogDirsCommand "$@" ;;
  verifiable-producer) tool VerifiableProducer "$@" ;;
  e2e-latency) tool EndToEndLatency "$@" ;;
  transactions) tool TransactionsCommand "$@" ;;
  *) fail "unknown verb '$verb': see the head of this file" ;;
esac
