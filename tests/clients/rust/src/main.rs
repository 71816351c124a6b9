//! Tests of krafka on given brokers: `clients TEST BOOTSTRAP NAME`.
//!
//! A test passes with exit code 0. Otherwise the reason is the last line on standard error.
//! NAME begins the names of its topics, groups and transactional ids. Topics have one partition.
//! `clients rules NAME=VALUE...` makes the calls of standard input (docs/rules.md).

mod driven;

use std::error::Error;
use std::time::Duration;

use krafka::admin::NewTopic;
use krafka::consumer::{AutoOffsetReset, Consumer, IsolationLevel};
use krafka::producer::{TopicPartitionOffset, TransactionalProducer};
use krafka::{Kafka, Record};

const PATIENCE: Duration = Duration::from_secs(20);

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match given.split_first() {
        Some((test, settings)) if test == "rules" => Ok(driven::drive(settings).await),
        _ => tokio::time::timeout(PATIENCE, run(&given)).await,
    };
    let reason = match outcome {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it takes too long".into(),
    };
    eprintln!("{reason}");
    std::process::exit(1);
}

async fn run(given: &[String]) -> Outcome {
    let [test, bootstrap, name] = given else {
        return Err("usage: clients TEST BOOTSTRAP NAME".into());
    };
    let kafka = Kafka::builder(bootstrap.clone())
        .client_id("krafka")
        .connect()
        .await?;
    // krafka asks for no topic to be made
    let admin = kafka.admin();
    for topic in [name.clone(), format!("{name}-in"), format!("{name}-out")] {
        let topics = [NewTopic::new(topic, 1, 1)?];
        for (_, outcome) in admin.create_topics(topics, Default::default()).await? {
            outcome?;
        }
    }
    match test.as_str() {
        "commit" => commit(&kafka, name).await,
        "abort" => abort(&kafka, name).await,
        "fenced" => fenced(&kafka, name).await,
        "process" => process(&kafka, name).await,
        _ => Err("no such test".into()),
    }
}

async fn transactional(kafka: &Kafka, id: &str) -> Outcome<TransactionalProducer> {
    Ok(kafka
        .producer()
        .transaction_timeout(Duration::from_secs(60))
        .delivery_timeout(Duration::from_secs(45))
        .build_transactional(id)
        .await?)
}

/// Sends values in one transaction, and leaves it open.
async fn send(producer: &TransactionalProducer, topic: &str, values: &[&str]) -> Outcome {
    producer.begin()?;
    for value in values {
        let _ = producer
            .send(Record::new(topic, value.as_bytes().to_vec()))
            .await?;
    }
    Ok(())
}

async fn consumer(
    kafka: &Kafka,
    group: &str,
    topic: &str,
    level: IsolationLevel,
) -> Outcome<Consumer> {
    let consumer = kafka
        .consumer(group)
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .isolation_level(level)
        .enable_auto_commit(false)
        .build()
        .await?;
    consumer.subscribe([topic]).await?;
    Ok(consumer)
}

/// Reads a topic from its start, and compares the values.
async fn expect(kafka: &Kafka, topic: &str, level: IsolationLevel, wanted: &[&str]) -> Outcome {
    let consumer = consumer(kafka, &format!("{topic}-{level:?}"), topic, level).await?;
    let mut found = Vec::new();
    while found.len() < wanted.len() {
        for record in consumer.poll(Duration::from_millis(200)).await? {
            found.push(String::from_utf8(
                record.value.unwrap_or_default().to_vec(),
            )?);
        }
    }
    consumer.close().await?;
    if found == wanted {
        Ok(())
    } else {
        Err(format!("read {found:?}, wanted {wanted:?}").into())
    }
}

async fn commit(kafka: &Kafka, name: &str) -> Outcome {
    let producer = transactional(kafka, name).await?;
    for values in [&["a", "b"][..], &["c"]] {
        send(&producer, name, values).await?;
        producer.commit().await?;
    }
    expect(kafka, name, IsolationLevel::ReadCommitted, &["a", "b", "c"]).await
}

async fn abort(kafka: &Kafka, name: &str) -> Outcome {
    let producer = transactional(kafka, name).await?;
    send(&producer, name, &["a"]).await?;
    producer.abort().await?;
    send(&producer, name, &["b"]).await?;
    producer.commit().await?;
    expect(kafka, name, IsolationLevel::ReadCommitted, &["b"]).await?;
    expect(kafka, name, IsolationLevel::ReadUncommitted, &["a", "b"]).await
}

async fn fenced(kafka: &Kafka, name: &str) -> Outcome {
    let older = transactional(kafka, name).await?;
    send(&older, name, &["older"]).await?;
    let newer = transactional(kafka, name).await?;
    send(&newer, name, &["newer"]).await?;
    newer.commit().await?;
    if older.commit().await.is_ok() {
        return Err("a fenced producer commits".into());
    }
    expect(kafka, name, IsolationLevel::ReadCommitted, &["newer"]).await
}

async fn process(kafka: &Kafka, name: &str) -> Outcome {
    let (from, to) = (format!("{name}-in"), format!("{name}-out"));
    let group = format!("{name}-group");
    let source = transactional(kafka, &format!("{name}-source")).await?;
    send(&source, &from, &["x"]).await?;
    source.abort().await?;
    send(&source, &from, &["a", "b", "c"]).await?;
    source.commit().await?;
    let producer = transactional(kafka, name).await?;
    let consumer = consumer(kafka, &group, &from, IsolationLevel::ReadCommitted).await?;
    let mut left = 3;
    while left > 0 {
        for record in consumer.poll(Duration::from_millis(200)).await? {
            producer.begin()?;
            let value = record.value.clone().unwrap_or_default();
            let _ = producer.send(Record::new(to.clone(), value)).await?;
            let offset =
                TopicPartitionOffset::new(&*record.topic, record.partition, record.offset + 1);
            let member = consumer
                .group_metadata()
                .await
                .ok_or("not a member of the group")?;
            producer.send_offsets(&[offset], &member).await?;
            producer.commit().await?;
            left -= 1;
        }
    }
    consumer.close().await?;
    expect(kafka, &to, IsolationLevel::ReadCommitted, &["a", "b", "c"]).await
}
