//! Makes the calls of standard input with krafka: see docs/rules.md.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::Duration;

use krafka::consumer::{AutoOffsetReset, Consumer, IsolationLevel};
use krafka::producer::{
    DeliveryHandle, Producer, TopicPartitionOffset, TransactionState, TransactionalProducer,
};
use krafka::{Kafka, Record};

use crate::{consumer, Outcome};

const LIMIT: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_secs(2);
/// A member that gets no record for so long has none.
const MEMBER_QUIET: Duration = Duration::from_secs(8);

enum Opened {
    Idempotent(Producer),
    Transactional(TransactionalProducer),
}

struct Driven {
    kafka: Kafka,
    settings: HashMap<String, String>,
    producer: Option<Opened>,
    sent: Vec<DeliveryHandle>,
    member: Option<Consumer>,
    offsets: Vec<TopicPartitionOffset>,
}

/// Makes the calls, one in each line, and prints their outcomes.
pub async fn drive(given: &[String]) -> Outcome {
    let settings: HashMap<String, String> = given
        .iter()
        .filter_map(|each| each.split_once('='))
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let kafka = Kafka::builder(settings["bootstrap.servers"].clone())
        .client_id(settings["client.id"].clone());
    let kafka = match settings.get("metadata.max.age.ms") {
        Some(age) => kafka.metadata_max_age(Duration::from_millis(age.parse()?)),
        None => kafka,
    };
    let kafka = kafka.connect().await?;
    let producer = match settings.get("transactional.id") {
        Some(_) => None,
        None => Some(Opened::Idempotent(kafka.producer().build().await?)),
    };
    let mut driven = Driven {
        kafka,
        settings,
        producer,
        sent: Vec::new(),
        member: None,
        offsets: Vec::new(),
    };
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let call: Vec<&str> = line.split_whitespace().collect();
        let said = match tokio::time::timeout(LIMIT, driven.make(&call)).await {
            Ok(Ok(said)) => said,
            Ok(Err(error)) => error.to_string().replace('\n', " "),
            Err(_) => "it takes too long".into(),
        };
        println!("{said}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

impl Driven {
    async fn make(&mut self, call: &[&str]) -> Outcome<String> {
        match *call {
            ["initTransactions"] => {
                let id = &self.settings["transactional.id"];
                let producer = self.kafka.producer().build_transactional(id).await?;
                self.producer = Some(Opened::Transactional(producer));
            }
            ["beginTransaction"] => self.transactional()?.begin()?,
            ["send", partition, value] => {
                let topic = self.settings["topic"].clone();
                let record = Record::new(topic, value.as_bytes().to_vec());
                let record = record.partition(partition.parse()?);
                let handle = match self.producer.as_ref().ok_or("no producer")? {
                    Opened::Idempotent(producer) => producer.enqueue(record).await?,
                    Opened::Transactional(producer) => producer.enqueue(record).await?,
                };
                self.sent.push(handle);
            }
            ["flush"] => {
                for handle in std::mem::take(&mut self.sent) {
                    handle.await?;
                }
            }
            ["commitTransaction"] => {
                let producer = self.transactional()?;
                // while the outcome is unknown, the documentation asks for another call
                while let Err(error) = producer.commit().await {
                    if producer.state() != TransactionState::CommitUnknown {
                        return Err(error.into());
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
            ["abortTransaction"] => {
                self.sent.clear();
                self.transactional()?.abort().await?;
            }
            ["poll"] => return self.poll().await,
            ["sendOffsets"] => {
                let member = self.member.as_ref().ok_or("no member")?;
                let metadata = member.group_metadata().await.ok_or("not a member")?;
                let producer = self.transactional()?;
                producer.send_offsets(&self.offsets, &metadata).await?;
            }
            ["leave"] => self.member.take().ok_or("no member")?.close().await?,
            ["values", partition] => return self.values(partition.parse()?).await,
            _ => return Ok("unsupported".into()),
        }
        Ok("ok".into())
    }

    fn transactional(&self) -> Outcome<&TransactionalProducer> {
        match &self.producer {
            Some(Opened::Transactional(producer)) => Ok(producer),
            _ => Err("no transactional producer".into()),
        }
    }

    /// The values that come next to a member of the group, which joins with its first call.
    async fn poll(&mut self) -> Outcome<String> {
        if self.member.is_none() {
            let (group, topic) = (&self.settings["group.id"], &self.settings["input"]);
            let level = IsolationLevel::ReadCommitted;
            self.member = Some(consumer(&self.kafka, group, topic, level).await?);
        }
        let member = self.member.as_ref().ok_or("no member")?;
        let until = tokio::time::Instant::now() + MEMBER_QUIET;
        let mut found = Vec::new();
        while found.is_empty() && tokio::time::Instant::now() < until {
            for record in member.poll(Duration::from_millis(200)).await? {
                let behind = record.offset + 1;
                self.offsets = vec![TopicPartitionOffset::new(
                    &*record.topic,
                    record.partition,
                    behind,
                )];
                found.push(String::from_utf8(
                    record.value.unwrap_or_default().to_vec(),
                )?);
            }
        }
        Ok(found.join(","))
    }

    /// The committed values of a partition: all that come before 2 s pass without one.
    async fn values(&self, partition: i32) -> Outcome<String> {
        let topic = &self.settings["topic"];
        let consumer = self
            .kafka
            .consumer_without_group()
            .auto_offset_reset(AutoOffsetReset::Earliest)
            .isolation_level(IsolationLevel::ReadCommitted)
            .enable_auto_commit(false)
            .build()
            .await?;
        consumer.assign(topic, vec![partition]).await?;
        consumer.seek_to_beginning(topic, partition).await?;
        let mut found = Vec::new();
        loop {
            let records = consumer.poll(QUIET).await?;
            if records.is_empty() {
                consumer.close().await?;
                return Ok(found.join(","));
            }
            for record in records {
                found.push(String::from_utf8(
                    record.value.unwrap_or_default().to_vec(),
                )?);
            }
        }
    }
}
